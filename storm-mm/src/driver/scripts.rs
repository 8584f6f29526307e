//! Gives a batch script back to those who may see it: its job's owner and the administrators.

use super::{Contents, Shared};
use crate::api::{ApiError, ErrorCode, MAX_SCRIPT_BYTES, Peer, Reply, ReplySink};
use std::io;
use std::rc::Rc;
use storm_primitives::{Primitives, Runtime};
use storm_rm::file_transfer::ChunkSource;
use storm_rm::{FileSpec, FirstStep, JobId, JobSpec, Program};

/// Bytes of a script that are read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Answers with the script of a job.
pub(super) fn send<P: Primitives, C: Contents + 'static>(
    shared: &Rc<Shared<P, C>>,
    peer: Peer,
    job: JobId,
    replies: ReplySink,
) {
    let found = shared.owned_by(peer, job).and_then(|_| {
        let core = shared.core();
        let spec = &core.job(job)?.spec;
        Ok((script_of(job, spec)?.clone(), spec.owner.uid))
    });
    let (file, owner) = match found {
        Ok(found) => found,
        Err(error) => {
            let _ = replies.refuse(error);
            return;
        }
    };
    let this = shared.clone();
    let answering = shared.primitives.runtime().spawn(async move {
        let _ = match read(this.staging.contents(), owner, &file).await {
            Ok(data) => replies.send(Reply::Script {
                job,
                name: file.name.to_string_lossy().into_owned(),
                data: data.into(),
            }),
            Err(error) => replies.refuse(not_there(job, &error)),
        };
    });
    // It ends with the file.
    answering.detach();
}

/// The script of a job, unless it has none or one that is too long for an answer.
fn script_of(job: JobId, spec: &JobSpec) -> Result<&FileSpec, ApiError> {
    let none = |why: &str| Err(ApiError::new(ErrorCode::BadRequest, format!("job {job} {why}")));
    match (spec.first, &spec.step.program) {
        (FirstStep::Program, _) => none("is no batch job: it has no script"),
        (FirstStep::Script, Program::OnNodes(_)) => none("runs a script that only its node has"),
        (FirstStep::Script, Program::Shipped(file)) if file.size_bytes > MAX_SCRIPT_BYTES => {
            let message = format!("the script of job {job} has {} bytes", file.size_bytes);
            let why = format!("at most {MAX_SCRIPT_BYTES} bytes are given back");
            Err(ApiError::new(ErrorCode::TooLarge, message).why(why))
        }
        (FirstStep::Script, Program::Shipped(file)) => Ok(file),
    }
}

async fn read<C: Contents>(contents: &C, owner: u32, file: &FileSpec) -> io::Result<Vec<u8>> {
    let mut source = contents.open(owner, &file.hash).await?;
    let size = usize::try_from(file.size_bytes).map_err(io::Error::other)?;
    let mut data = Vec::with_capacity(size);
    while data.len() < size {
        let chunk = source.read(CHUNK_BYTES.min(size - data.len())).await?;
        data.extend_from_slice(&chunk);
    }
    Ok(data)
}

fn not_there(job: JobId, error: &io::Error) -> ApiError {
    match error.kind() {
        io::ErrorKind::NotFound => {
            let message = format!("the script of job {job} is not kept any more");
            ApiError::new(ErrorCode::Storage, message)
                .hint("the manager keeps files of jobs that have ended as long as it has room")
        }
        _ => {
            let message = format!("the script of job {job} cannot be read");
            ApiError::new(ErrorCode::Storage, message).why(error.to_string())
        }
    }
}
