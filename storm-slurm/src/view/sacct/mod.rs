//! `sacct`: rows of jobs and their steps, fields, and the forms of its table.

mod fields;
mod row;
mod table;
mod window;

pub use fields::{SACCT_FIELDS, SacctField, help_format};
pub use row::SacctRow;
pub use table::{Form, SacctLayout, UnknownSacctField};
pub use window::{Edges, Window};

pub use super::memory_text::UnitChoice;

/// The fields without any option.
pub const DEFAULT_FORMAT: &str = "jobid,jobname,partition,account,alloccpus,state,exitcode";
/// The fields of `--brief`.
pub const BRIEF_FORMAT: &str = "jobid,state,exitcode";
/// The fields of `--long`.
pub const LONG_FORMAT: &str = "jobid,jobidraw,jobname,partition,maxvmsize,maxvmsizenode,\
    maxvmsizetask,avevmsize,maxrss,maxrssnode,maxrsstask,averss,maxpages,maxpagesnode,\
    maxpagestask,avepages,mincpu,mincpunode,mincputask,avecpu,ntasks,alloccpus,elapsed,state,\
    exitcode,avecpufreq,reqcpufreqmin,reqcpufreqmax,reqcpufreqgov,reqmem,consumedenergy,\
    maxdiskread,maxdiskreadnode,maxdiskreadtask,avediskread,maxdiskwrite,maxdiskwritenode,\
    maxdiskwritetask,avediskwrite,reqtres,alloctres,tresusageinave,tresusageinmax,\
    tresusageinmaxnode,tresusageinmaxtask,tresusageinmin,tresusageinminnode,tresusageinmintask,\
    tresusageintot,tresusageoutmax,tresusageoutmaxnode,tresusageoutmaxtask,tresusageoutave,\
    tresusageouttot";
