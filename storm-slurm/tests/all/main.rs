//! Properties of what reads users' words.

mod host_list;
mod words;
