//! sstat(1): the steps of jobs that run.

use super::complaint::Complaint;
use super::job_facts::{JobReader, step_of};
use super::queue_options::names;
use super::sacct_options::form;
use super::source::Source;
use crate::command::{note, print};
use storm_mm::api::{JobFilter, JobState};
use storm_rm::JobId;
use storm_slurm::options::CommandLine;
use storm_slurm::view::StateCode;
use storm_slurm::view::sacct::{SacctLayout, SacctRow, UnitChoice, help_format};

/// The fields without any option (sstat(1)).
const FORMAT: &str = "jobid,maxvmsize,maxvmsizenode,maxvmsizetask,avevmsize,maxrss,maxrssnode,\
    maxrsstask,averss,maxpages,maxpagesnode,maxpagestask,avepages,mincpu,mincpunode,mincputask,\
    avecpu,ntasks,avecpufreq,reqcpufreqmin,reqcpufreqmax,reqcpufreqgov,consumedenergy,maxdiskread,\
    maxdiskreadnode,maxdiskreadtask,avediskread,maxdiskwrite,maxdiskwritenode,maxdiskwritetask,\
    avediskwrite,tresusageinave,tresusageinmax,tresusageinmaxnode,tresusageinmaxtask,\
    tresusageinmin,tresusageinminnode,tresusageinmintask,tresusageintot,tresusageoutave,\
    tresusageoutmax,tresusageoutmaxnode,tresusageoutmaxtask,tresusageoutmin,tresusageoutminnode,\
    tresusageoutmintask,tresusageouttot";

/// Whether sstat(1) lists this field of sacct(1): the fields without any option, and three more.
fn is_of_sstat(name: &str) -> bool {
    let further = ["ConsumedEnergyRaw", "Nodelist", "ReqCPUFreq"];
    further.iter().any(|known| known.eq_ignore_ascii_case(name))
        || FORMAT.split(',').any(|known| known.eq_ignore_ascii_case(name))
}

pub(super) async fn run(line: &CommandLine) -> Result<u8, Complaint> {
    if line.has("helpformat") {
        return Ok(print(&help_format(is_of_sstat)).map(|()| 0)?);
    }
    let mut jobs = line.list("jobs");
    jobs.extend(line.operands.iter().map(|word| word.to_string_lossy().into_owned()));
    if jobs.is_empty() {
        return Err(Complaint::error("You didn't give me any jobs to stat."));
    }
    let named = names(&jobs.join(","), "Bad job/step specified: ")?;
    let given = line.list("format").join(",");
    let format = if given.is_empty() { FORMAT } else { &given };
    let layout = SacctLayout::of(format).map_err(|error| Complaint::error(error.to_string()))?;
    let (form, unit) = (
        form(line),
        match line.has("noconvert") {
            true => UnitChoice::Bytes,
            false => UnitChoice::Fitting,
        },
    );
    let mut source = Source::open().await?;
    let show = source.show().await?;
    let filter = JobFilter {
        jobs: named.iter().map(|name| JobId(name.job)).collect(),
        states: vec![JobState::Running, JobState::Suspended],
        attributes: true,
        ..JobFilter::default()
    };
    let views = source.jobs(filter).await?;
    let mut reader = JobReader::default();
    let mut text = if line.has("noheader") { String::new() } else { layout.heads(&form) };
    for name in &named {
        let mut any = false;
        for view in &views {
            let task = view.array.map(|task| (task.array.0, task.index));
            if !name.means(view.id.0, task) {
                continue;
            }
            let job = reader.facts(view);
            let step = step_of(view, &job).filter(|step| {
                name.step.as_deref().is_none_or(|wanted| wanted == step.id)
                    && job.state != StateCode::Configuring
            });
            any |= step.is_some();
            let row = step.map(|step| SacctRow::Step(Box::new(step)));
            text.extend(row.map(|row| layout.row(&row, &show, unit, &form)));
        }
        if !any {
            note(&format!("sstat: error: no steps running for job {}\n", name.job));
        }
    }
    print(&text)?;
    Ok(0)
}
