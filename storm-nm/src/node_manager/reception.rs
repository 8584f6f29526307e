//! RECEIVE-FILE (paper, Algorithm 7): from the channel into the cache, and to the place that the
//! user chose.

use super::Node;
use crate::reason::{bounded, explain};
use crate::{Content, Host};
use std::rc::Rc;
use storm_primitives::{Primitives, Runtime};
use storm_rm::Destination;
use storm_rm::file_transfer::{
    ReceiveError, mark_failed, mark_present, prepare_channel, receive_file,
};
use storm_rm::message::{ReceiveFile, Report};
use storm_rm::termination::Urgency;

impl<P: Primitives, H: Host> Node<P, H> {
    /// Receives a file concurrently. If the channel was in use, the Machine Manager has given up
    /// the earlier file.
    pub(super) fn receive(self: &Rc<Self>, info: ReceiveFile) {
        let (node, channel) = (self.clone(), info.channel);
        let task = self.runtime.spawn(async move {
            match node.try_receive(&info).await {
                Ok(()) => mark_present(&node.life.link(), &node.life.plan(), &info),
                Err(reason) => node.refuse_file(&info, reason),
            }
        });
        self.tasks.receive(channel, task);
    }

    /// Reports to the Machine Manager that the file will not be here, and why.
    pub(super) fn refuse_file(self: &Rc<Self>, info: &ReceiveFile, reason: String) {
        let reason = format!(
            "{} cannot receive {}: {reason}",
            self.life.name(),
            info.file.name.to_string_lossy()
        );
        let (channel, generation, reason) = (info.channel, info.generation, bounded(reason));
        self.post(Report::FileFailed { channel, generation, reason }, Urgency::AtOnce);
        mark_failed(&self.life.link(), &self.life.plan(), info);
    }

    async fn try_receive(&self, info: &ReceiveFile) -> Result<(), String> {
        let content = self.host.content(info).await;
        match content.map_err(|error| explain(&error))? {
            Content::Present => {}
            Content::Missing(mut sink) => {
                let mut chunks = prepare_channel(&self.life.link(), &self.life.plan(), info)
                    .map_err(|error| explain(&error))?;
                receive_file(&mut chunks, info, &mut sink).await.map_err(|error| match error {
                    // The sink's own text names the write that failed.
                    ReceiveError::Sink(error) => explain(&error),
                    other => explain(&other),
                })?;
            }
        }
        match &info.file.destination {
            Destination::JobDirectory | Destination::JobDirectoryUnlessAt(_) => Ok(()),
            Destination::Path(_) => {
                self.host.place(info.owner, &info.file).await.map_err(|refused| refused.reason)
            }
        }
    }
}
