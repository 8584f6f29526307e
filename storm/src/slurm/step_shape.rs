//! The processes of a step and their nodes, as srun(1) finds them from its options, the variables
//! of the job and the nodes of its place. The texts are those of Slurm 22.05.

use super::complaint::Complaint;
use storm_rm::Share;

/// The wishes of a command line and the variables.
#[derive(Clone, Debug, Default)]
pub(super) struct AskedShape {
    /// `--ntasks`.
    pub(super) procs: Option<u32>,
    /// `--nodes`: the least and the most.
    pub(super) nodes: Option<(u32, u32)>,
    /// Whether `--nodes` is on the command line, not only in a variable.
    pub(super) nodes_typed: bool,
    /// `--ntasks-per-node`.
    pub(super) per_node: Option<u32>,
    /// `--cpus-per-task`.
    pub(super) cpus_each: Option<u32>,
    /// `--nodelist`.
    pub(super) required: Vec<String>,
    /// `--exclude`.
    pub(super) excluded: Vec<String>,
    /// `--relative`.
    pub(super) relative: Option<u32>,
    /// `--exact`, or what implies it.
    pub(super) exact: bool,
    pub(super) overlap: bool,
    pub(super) overcommit: bool,
    /// The nodes of the job's place, in the order of its list; none if they are not known.
    pub(super) place: Vec<String>,
}

/// The shape of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) procs: u32,
    pub(super) nodes: u32,
    pub(super) elements_each: u32,
    pub(super) share: Share,
    pub(super) per_node: Option<u32>,
    pub(super) required: Vec<String>,
    pub(super) excluded: Vec<String>,
}

impl AskedShape {
    /// The shape. `warn` gets what srun says and goes on.
    pub(super) fn shape(self, warn: &mut dyn FnMut(String)) -> Result<Shape, Complaint> {
        let nodes = self.nodes_wanted()?;
        let of_nodes = nodes.saturating_mul(self.per_node.unwrap_or(1));
        let procs = self.procs.unwrap_or(of_nodes);
        let per_node = self.per_node.filter(|each| {
            let fits = procs <= each.saturating_mul(nodes);
            if !fits {
                warn(format!(
                    "Warning: can't honor --ntasks-per-node set to {each} which doesn't match the \
                     requested tasks {procs} with the number of requested nodes {nodes}. Ignoring \
                     --ntasks-per-node."
                ));
            }
            fits
        });
        let nodes = self.fitted(procs, nodes, warn);
        let (required, excluded) = match self.relative {
            None => (self.required_of(nodes, warn), self.excluded.clone()),
            Some(first) => self.relative_nodes(first, nodes)?,
        };
        Ok(Shape {
            procs,
            nodes,
            elements_each: self.cpus_each.filter(|_| !self.overcommit).unwrap_or(1),
            share: match (self.overlap, self.exact && !self.overcommit) {
                (true, _) => Share::Overlap,
                (false, true) => Share::Exact,
                (false, false) => Share::WholeNodes,
            },
            per_node,
            required,
            excluded,
        })
    }

    /// The number of nodes, whatever the number of processes.
    fn nodes_wanted(&self) -> Result<u32, Complaint> {
        let of_place = number_of(&self.place);
        let (least, most) = self.nodes.unwrap_or((of_place.max(1), of_place.max(1)));
        if self.place.is_empty() {
            return Ok(least);
        }
        if least > of_place {
            let text = format!("Only allocated {of_place} nodes asked for {least}");
            return Err(Complaint::error(text));
        }
        let wanted = most.min(of_place).max(number_of(&self.required).min(of_place));
        let wanted = if self.nodes_typed { most.min(of_place) } else { wanted };
        let left = self.place.iter().filter(|node| !self.excluded.contains(node)).count();
        let left = u32::try_from(left).unwrap_or(u32::MAX);
        if least > left {
            return Err(Complaint::error(format!("Only allocated {left} nodes asked for {least}"))
                .and_error("Are required nodes explicitly excluded?"));
        }
        Ok(wanted.min(left))
    }

    /// The nodes that the processes can have.
    fn fitted(&self, procs: u32, nodes: u32, warn: &mut dyn FnMut(String)) -> u32 {
        let least = self.nodes.map_or(nodes, |(least, _)| least);
        if least > procs {
            warn(format!(
                "Warning: can't run {procs} processes on {nodes} nodes, setting nnodes to {procs}"
            ));
        }
        nodes.min(procs)
    }

    /// The required nodes, of which there can be at most `nodes`.
    fn required_of(&self, nodes: u32, warn: &mut dyn FnMut(String)) -> Vec<String> {
        let named = number_of(&self.required);
        if named > nodes && self.nodes_typed {
            warn(format!(
                "error: Required nodelist includes more nodes than permitted by max-node count \
                 ({named} > {nodes}). Eliminating nodes from the nodelist."
            ));
        }
        self.required.iter().take(nodes as usize).cloned().collect()
    }

    /// The nodes from number `first` of the place on, and the others of it.
    fn relative_nodes(
        &self,
        first: u32,
        nodes: u32,
    ) -> Result<(Vec<String>, Vec<String>), Complaint> {
        let of_place = number_of(&self.place);
        let behind = first.saturating_add(nodes);
        if behind > of_place {
            let option = if self.nodes_typed { "--nodes" } else { "SLURM_JOB_NUM_NODES" };
            return Err(Complaint::error(format!(
                "--relative and {option} option incompatible with count of allocated nodes \
                 ({first}+{nodes}>{of_place})"
            )));
        }
        let chosen = first as usize..behind as usize;
        let (required, others): (Vec<_>, Vec<_>) =
            self.place.iter().cloned().enumerate().partition(|(at, _)| chosen.contains(at));
        let names = |nodes: Vec<(usize, String)>| nodes.into_iter().map(|(_, name)| name).collect();
        Ok((names(required), names(others)))
    }
}

fn number_of(nodes: &[String]) -> u32 {
    u32::try_from(nodes.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use storm_slurm::Verb;

    fn names(list: &str) -> Vec<String> {
        list.split_whitespace().map(str::to_owned).collect()
    }

    /// In the place of `-N 3 -n 6`, with the variables of such a job.
    fn place() -> AskedShape {
        let (procs, nodes) = (Some(6), Some((3, 3)));
        AskedShape { procs, nodes, place: names("n1 n2 n3"), ..AskedShape::default() }
    }

    fn shape(asked: AskedShape) -> (Shape, String) {
        let mut told = String::new();
        let shape = asked.shape(&mut |text| told += &text).expect("it has a shape");
        (shape, told)
    }

    fn refused(asked: AskedShape) -> String {
        asked.shape(&mut |_| {}).expect_err("it is refused").shown(Verb::Srun)
    }

    #[test]
    fn a_step_without_options_has_the_nodes_and_the_processes_of_its_place() {
        let (whole, told) = shape(place());
        assert_eq!((whole.procs, whole.nodes, whole.share), (6, 3, Share::WholeNodes));
        assert_eq!(told, "");
        let (two, told) = shape(AskedShape { procs: Some(2), ..place() });
        assert_eq!((two.procs, two.nodes), (2, 2));
        assert_eq!(told, "Warning: can't run 2 processes on 3 nodes, setting nnodes to 2");
        let (unasked, _) = shape(AskedShape { procs: None, per_node: Some(2), ..place() });
        assert_eq!((unasked.procs, unasked.per_node), (6, Some(2)));
    }

    #[test]
    fn nodes_are_named_counted_and_left_out() {
        let typed = |nodes| AskedShape { nodes: Some(nodes), nodes_typed: true, ..place() };
        let one = AskedShape { procs: Some(1), required: names("n2 n3"), ..typed((1, 1)) };
        let (shape_of_one, told) = shape(one);
        assert_eq!(shape_of_one.required, names("n2"));
        assert!(told.contains("(2 > 1)"), "{told}");
        let range = AskedShape { procs: Some(2), ..typed((1, 3)) };
        assert_eq!(shape(range), (Shape { nodes: 2, procs: 2, ..shape(place()).0 }, String::new()));
        assert_eq!(refused(typed((4, 4))), "srun: error: Only allocated 3 nodes asked for 4\n");
        let without = AskedShape { excluded: names("n1"), ..place() };
        assert!(refused(without).contains("Only allocated 2 nodes asked for 3"));
        let second = AskedShape { procs: Some(1), relative: Some(1), ..typed((1, 1)) };
        let (second, _) = shape(second);
        assert_eq!((second.required, second.excluded), (names("n2"), names("n1 n3")));
        let beyond = AskedShape { procs: Some(1), relative: Some(5), ..typed((1, 1)) };
        assert!(refused(beyond).contains("allocated nodes (5+1>3)"));
    }

    #[test]
    fn elements_of_each_process_make_a_step_exact() {
        let (exact, _) = shape(AskedShape { cpus_each: Some(2), exact: true, ..place() });
        assert_eq!((exact.share, exact.elements_each), (Share::Exact, 2));
        let (shared, _) = shape(AskedShape { exact: true, overcommit: true, ..place() });
        assert_eq!(shared.share, Share::WholeNodes);
        let (overlap, _) = shape(AskedShape { exact: true, overlap: true, ..place() });
        assert_eq!(overlap.share, Share::Overlap);
        let (_, told) = shape(AskedShape { per_node: Some(1), ..place() });
        assert!(told.starts_with("Warning: can't honor --ntasks-per-node set to 1"), "{told}");
    }
}
