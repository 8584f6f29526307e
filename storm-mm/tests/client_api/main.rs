//! The client API's server and client against each other, and the server against clients that are
//! wrong, slow, hostile or disconnected.

mod following;
mod hostile;
mod remote;
mod requests;
mod served;
mod unread;
mod uploads;
