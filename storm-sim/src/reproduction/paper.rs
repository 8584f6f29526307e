//! The paper's numbers for comparison with ours, each with the place where it is printed.
//!
//! Numbers in other modules are not repeated. Rivals and their laws are in `storm_model::Rival`,
//! constants of the machine in `storm_model::Es40`.

/// Table 3: MB/s (MiB/s) by stages and cables, in the order of `storm_model::table_3`.
pub(super) const TABLE_3_MIB_S: [[f64; 9]; 6] = [
    [320.0, 320.0, 320.0, 315.0, 291.0, 271.0, 253.0, 238.0, 224.0],
    [320.0, 319.0, 295.0, 274.0, 256.0, 240.0, 226.0, 213.0, 202.0],
    [298.0, 277.0, 258.0, 242.0, 228.0, 215.0, 204.0, 194.0, 184.0],
    [261.0, 244.0, 230.0, 217.0, 206.0, 195.0, 186.0, 177.0, 170.0],
    [232.0, 219.0, 207.0, 197.0, 187.0, 178.0, 171.0, 163.0, 157.0],
    [209.0, 198.0, 188.0, 180.0, 172.0, 164.0, 158.0, 152.0, 146.0],
];

/// Nodes of the launch experiments (sections 4.1 and 4.2).
pub(super) const LAUNCH_NODES: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Binaries of the launch experiments (section 4.2).
pub(super) const LAUNCH_MIB: [u64; 3] = [4, 8, 12];
/// All nodes of the cluster, and the largest binary.
pub(super) const ALL_NODES: u32 = 64;
pub(super) const LARGEST_MIB: u64 = 12;

/// Launch of 12 MB on 64 nodes without load.
pub(super) const UNLOADED: &str = "section 4.2.1";
pub(super) const UNLOADED_SEND_MS: f64 = 96.0;
pub(super) const UNLOADED_EXEC_MS: f64 = 14.0;
pub(super) const UNLOADED_TOTAL_MS: f64 = 110.0;
/// Protocol bandwidth of a node (MB/s), and of the 63 that are not the source (GB/s).
pub(super) const NODE_MIB_S: f64 = 125.0;
pub(super) const AGGREGATE_GB_S: f64 = 7.87;

/// The launch under load: "a second", "1 1/2 seconds", "160 ms in the worst case".
pub(super) const LOADED: &str = "section 4.2.2";
pub(super) const CPU_LOADED_TOTAL_MS: f64 = 1_000.0;
pub(super) const NETWORK_LOADED_TOTAL_MS: f64 = 1_500.0;
pub(super) const NETWORK_LOADED_EXEC_MS: f64 = 160.0;

/// Nodes and jobs of the gang scheduling experiments; 64 PEs on 32 nodes.
pub(super) const GANG_NODES: u32 = 32;
pub(super) const GANG_PES: u32 = 2;
/// Processes of a job on each node with which the daemons have no processor of their own (section
/// 4.1).
pub(super) const ALL_PES: u32 = storm_model::Es40::PROCESSORS_PER_NODE;
/// Time slices: no visible slowdown at or above this value; nodes do not keep up far below it.
pub(super) const TIME_SLICES: &str = "section 4.3.1";
pub(super) const FLAT_FROM_US: u64 = 2_000;
pub(super) const SHORTEST_US: u64 = 300;
/// The time slice of Figs. 4 and 5.
pub(super) const USUAL_SLICE_US: u64 = 50_000;
/// Jobs at once in Fig. 5.
pub(super) const LEVELS: [u32; 4] = [1, 2, 4, 8];

/// Table 6: shortest feasible slices in ms, and on how many nodes.
pub(super) const TABLE_6: &str = "Table 6";
pub(super) const RMS_SLICE_MS: f64 = 30_000.0;
pub(super) const SCORE_D_SLICE_MS: f64 = 100.0;
pub(super) const STORM_SLICE_MS: f64 = 2.0;
pub(super) const FEASIBLE_SLOWDOWN_PERCENT: f64 = 2.0;

/// Growth of a barrier over 1,024 nodes.
pub(super) const BARRIER: &str = "section 4.4.2, Fig. 7";
pub(super) const BARRIER_NODES: u32 = 1_024;
pub(super) const BARRIER_GROWTH_US: f64 = 6.0;

/// Launch on 4,096 nodes (Table 5) and on 16,384.
pub(super) const LAUNCH_MODEL: &str = "section 4.4.2";
pub(super) const LAUNCH_4096_MS: f64 = 110.0;
pub(super) const LAUNCH_16384_MS: f64 = 135.0;

/// STORM's launch on 64 nodes, in seconds.
pub(super) const TABLE_4: &str = "Table 4";
pub(super) const STORM_LAUNCH_S: f64 = 0.11;
pub(super) const TABLE_5: &str = "Table 5";
/// Where other systems would overtake STORM.
pub(super) const CROSSOVER: &str = "section 5.1";
