//! How long a rank polls for news before it sleeps in the kernel.
//!
//! The rule is two-phase waiting as in implicit coscheduling (Arpaci-Dusseau, ACM TOCS 19(3),
//! 2001). A rank spins for as long as an answer takes when its sender runs, then gives up its
//! processor. It continues while messages arrive, because the others run then, and each of them
//! would pay for a switch (the conditional rule).
//!
//! - For all members of a communicator, a rank polls longer, by as much as the last member was
//!   recently later than an answer.
//! - A rank that has polled in vain several times polls seldom, because it may occupy the processor
//!   that the awaited rank needs.
//! - When it does poll again, it polls for as long as the shortest recent sleep. Two sleepers that
//!   wake each other may take several times as long as their polls. Neither would ever find the
//!   other awake.
//!
//! The module is pure: the caller has the clock. Time only decides which process has the processor,
//! never the outcome of a wait, because a job may be stopped at any instant.

use crate::error::InitError;
use crate::page::Way;
use crate::thresholds::Thresholds;
use std::time::{Duration, Instant};

/// Names the way to wait: `spin`, `block` or `spin-block`.
const MODE_VARIABLE: &str = "STORM_MPI_WAIT";
/// The first phase of `spin-block`, in microseconds.
const SPIN_VARIABLE: &str = "STORM_MPI_SPIN_US";

/// Number of polls in vain before polling is suspended.
const VAIN_MAX: u32 = 2;
/// Longest run of waits without looking.
const SKIPPED_MAX: u32 = 1024;
/// Longest additional polling for all members of a communicator, as a multiple of the time to wake
/// a sleeper. If their times of arrival differ by more, polling for the last member benefits no
/// rank.
const IMBALANCE_MAX_WAKES: u32 = 10;
/// Bytes per microsecond that a neighbour reads at least from a waiting message.
const READ_BYTES_PER_US: u64 = 4096;
/// Longest polling for the end of such a read. Compared with more time, a wake-up does not count.
const READING_MAX: Duration = Duration::from_millis(1);
/// If a sleeping wait takes longer than this, a rank does not poll throughout it.
const LOOKING_MAX: Duration = Duration::from_micros(100);
/// With each sleeping wait that takes longer, the recorded minimum grows by one part in this many.
const ASLEEP_WEIGHT: u32 = 16;
/// A new measurement of the imbalance counts for one part in this many.
const IMBALANCE_WEIGHT: u32 = 8;

/// The way in which a rank waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Poll until there is news: for ranks with processors of their own, or gangs.
    Spin,
    /// Sleep at once: for ranks that share processors with others that can use the time.
    Block,
    /// Poll for a while first.
    SpinBlock {
        /// For the first news, `2 L + 4 O + W`.
        base: Duration,
        /// After news, for the next, `2 L + 4 O + 5 W`.
        pair: Duration,
    },
}

/// The time until which to poll before sleeping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// Sleep now.
    None,
    /// Look until then.
    Until(Instant),
    /// Never sleep.
    Endless,
}

/// The data for the next wait of a rank.
#[derive(Debug)]
pub(super) struct Waiting {
    mode: Mode,
    last_news: Option<Instant>,
    /// Number of consecutive waits in which polling ended in sleep.
    vain: u32,
    /// Number of coming waits without looking.
    skipped: u32,
    /// The shortest recent wait without looking.
    asleep: Option<Duration>,
    /// The present wait does not poll.
    is_asleep: bool,
    /// Duration of a recent polling that found news after shorter ones had not.
    longer: Duration,
    /// Shortest look of the present wait.
    tried: Duration,
    /// The present wait is for all members of a communicator.
    for_all: bool,
    /// Start of the present wait.
    began: Option<Instant>,
    /// `V`: how much longer than an answer the waits for all members last.
    imbalance: Duration,
    /// Time that neighbours need to read this rank's announced messages.
    reading: Duration,
    /// `W`: the time to wake a sleeper.
    wake: Duration,
    /// The user has chosen the way to wait.
    wished: bool,
    /// The user has not chosen the duration of polling.
    learns: bool,
}

/// The user's settings.
#[derive(Debug)]
pub(super) struct Wish {
    mode: Option<Named>,
    spin: Option<Duration>,
    thresholds: Thresholds,
}

#[derive(Clone, Copy, Debug)]
enum Named {
    Spin,
    Block,
    SpinBlock,
}

impl Wish {
    /// Reads the environment.
    pub(super) fn from_environment() -> Result<Self, InitError> {
        let value = |name| std::env::var(name).ok();
        let wish = Self::of(value(MODE_VARIABLE), value(SPIN_VARIABLE))?;
        Ok(Wish { thresholds: Thresholds::from_environment(), ..wish })
    }

    fn of(mode: Option<String>, spin_us: Option<String>) -> Result<Self, InitError> {
        let unknown =
            |variable, value: &str| Err(InitError::Setting { variable, value: value.to_owned() });
        let mode = match mode.as_deref().map(str::trim) {
            None | Some("") => None,
            Some("spin") => Some(Named::Spin),
            Some("block") => Some(Named::Block),
            Some("spin-block") => Some(Named::SpinBlock),
            Some(other) => return unknown(MODE_VARIABLE, other),
        };
        let spin = match spin_us.as_deref().map(|value| (value, value.trim().parse())) {
            None => None,
            Some((_, Ok(us))) => Some(Duration::from_micros(us)),
            Some((value, Err(_))) => return unknown(SPIN_VARIABLE, value),
        };
        Ok(Wish { mode, spin, thresholds: Thresholds::default() })
    }

    /// Applies the settings to a job. By default, the wait is two-phase. On a node with more ranks
    /// than processors, a rank sleeps at once, because the awaited rank may need this rank's
    /// processor.
    pub(super) fn waiting(&self, crowded: bool, has_remote: bool) -> Waiting {
        let Thresholds { local, remote, wake } = self.thresholds;
        let answer = if has_remote { remote } else { local };
        let base = self.spin.unwrap_or(answer + wake);
        let two_phase = Mode::SpinBlock { base, pair: base + 4 * wake };
        let mode = match self.mode {
            Some(Named::Spin) => Mode::Spin,
            Some(Named::Block) => Mode::Block,
            Some(Named::SpinBlock) => two_phase,
            None if crowded => Mode::Block,
            None => two_phase,
        };
        Waiting {
            mode,
            last_news: None,
            vain: 0,
            skipped: 0,
            asleep: None,
            is_asleep: false,
            longer: Duration::ZERO,
            tried: Duration::ZERO,
            for_all: false,
            began: None,
            imbalance: Duration::ZERO,
            reading: Duration::ZERO,
            wake,
            wished: self.mode.is_some() || self.spin.is_some(),
            learns: self.spin.is_none(),
        }
    }
}

impl Waiting {
    /// Sets whether waits from now on are for all members of a communicator, which arrive at
    /// different times.
    pub(super) fn for_all(&mut self, all: bool) {
        self.for_all = all;
    }

    /// Records that neighbours read `bytes` bytes of this rank's memory before they answer. The
    /// read is part of an answer's time.
    pub(super) fn are_read(&mut self, bytes: u64) {
        self.reading = Duration::from_micros(bytes / READ_BYTES_PER_US).min(READING_MAX);
    }

    /// Additional time, beyond one answer, for which polling for all members pays off.
    fn allowance(&self) -> Duration {
        let pays = self.for_all && self.imbalance <= IMBALANCE_MAX_WAKES * self.wake;
        if pays { self.imbalance } else { Duration::ZERO }
    }

    /// Ends the present wait.
    fn ended(&mut self, now: Instant) {
        self.last_news = Some(now);
        let (Some(began), Mode::SpinBlock { base, .. }) = (self.began.take(), self.mode) else {
            return;
        };
        if self.for_all {
            let longer = now.saturating_duration_since(began).saturating_sub(base);
            let kept = self.imbalance * (IMBALANCE_WEIGHT - 1) / IMBALANCE_WEIGHT;
            self.imbalance = kept + longer / IMBALANCE_WEIGHT;
        }
    }

    /// Whether the present wait is for all members of a communicator.
    pub(super) fn is_for_all(&self) -> bool {
        self.for_all
    }

    /// Whether the rank polls until there is news, regardless of the time and of the Node Manager's
    /// choice.
    pub(super) fn is_by_looking(&self) -> bool {
        self.wished && self.mode == Mode::Spin
    }

    /// The end of polling for a wait that begins, or continues after news. The Node Manager's
    /// choice counts if the user has not chosen anything.
    pub(super) fn patience(&mut self, now: Instant, told: Way) -> Patience {
        self.began = Some(now);
        self.is_asleep = false;
        match (self.wished, told) {
            (true, _) | (false, Way::Own) => {}
            (false, Way::Spin) => return Patience::Endless,
            (false, Way::SpinBlock) => return Patience::Until(now + 2 * self.wake),
        }
        match self.mode {
            Mode::Spin => Patience::Endless,
            Mode::Block => Patience::None,
            Mode::SpinBlock { base, .. } if base.is_zero() => Patience::None,
            Mode::SpinBlock { .. } if self.skipped > 0 => {
                self.skipped -= 1;
                self.is_asleep = true;
                Patience::None
            }
            Mode::SpinBlock { base, pair } => {
                self.tried = if self.vain >= VAIN_MAX { self.sleep() } else { self.longer };
                let first = now + base.max(self.tried) + self.reading + self.allowance();
                Patience::Until(self.last_news.map_or(first, |news| first.max(news + pair)))
            }
        }
    }

    /// The time in which a sleeper would get news; zero if it is too long to poll throughout.
    fn sleep(&self) -> Duration {
        let least = self.asleep.filter(|least| self.learns && *least <= LOOKING_MAX);
        least.map_or(Duration::ZERO, |least| least + least / 4)
    }

    /// Records that looking has brought news.
    pub(super) fn found(&mut self, now: Instant) {
        self.ended(now);
        if self.vain >= VAIN_MAX {
            self.longer = self.tried;
        }
        self.vain = 0;
    }

    /// Records that a sleep has brought news.
    pub(super) fn woken(&mut self, now: Instant) {
        if let Some(began) = self.began.filter(|_| self.is_asleep) {
            let took = now.saturating_duration_since(began);
            self.asleep =
                Some(self.asleep.map_or(took, |least| took.min(least + least / ASLEEP_WEIGHT)));
        }
        self.ended(now);
    }

    /// Records that polling has found nothing until patience ended.
    pub(super) fn gave_up(&mut self) {
        self.longer = Duration::ZERO;
        self.vain = self.vain.saturating_add(1);
        if self.vain >= VAIN_MAX {
            self.skipped = 1_u32.checked_shl(self.vain).map_or(SKIPPED_MAX, |n| n.min(SKIPPED_MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(mode: &str, spin_us: Option<&str>, crowded: bool) -> Waiting {
        let mode = Some(mode.to_owned());
        Wish::of(mode, spin_us.map(str::to_owned)).unwrap().waiting(crowded, false)
    }

    #[test]
    fn the_environment_chooses() {
        let now = Instant::now();
        assert_eq!(
            waiting("spin", None, true).patience(now, Way::Own),
            Patience::Endless,
            "told so"
        );
        assert_eq!(waiting("block", None, false).patience(now, Way::Own), Patience::None);
        assert_eq!(
            waiting("", None, true).patience(now, Way::Own),
            Patience::None,
            "a crowded node"
        );
        let until = Patience::Until(now + Duration::from_micros(50));
        assert_eq!(waiting("spin-block", Some("50"), true).patience(now, Way::Own), until);
        assert_eq!(waiting("spin-block", Some("0"), false).patience(now, Way::Own), Patience::None);
        for (mode, spin_us) in [("busy", "1"), ("spin", "-1"), ("spin", "x")] {
            let wrong = Wish::of(Some(mode.into()), Some(spin_us.into()));
            assert!(matches!(wrong, Err(InitError::Setting { .. })));
        }
    }

    #[test]
    fn the_node_managers_setting_counts_without_one_of_the_user() {
        let now = Instant::now();
        let mut own = Wish::of(None, None).unwrap().waiting(true, false);
        assert_eq!(own.patience(now, Way::Own), Patience::None, "a crowded node");
        assert_eq!(own.patience(now, Way::Spin), Patience::Endless);
        let twice = 2 * Thresholds::default().wake;
        assert_eq!(own.patience(now, Way::SpinBlock), Patience::Until(now + twice));
        let mut told = waiting("block", None, false);
        assert_eq!(told.patience(now, Way::Spin), Patience::None);
    }

    #[test]
    fn a_rank_that_is_read_looks_until_the_read_may_be_over() {
        let (now, us) = (Instant::now(), Duration::from_micros);
        let mut waiting = waiting("spin-block", Some("10"), false);
        for (bytes, longer) in [(0, us(0)), (64 << 10, us(16)), (1 << 40, READING_MAX), (0, us(0))]
        {
            waiting.are_read(bytes);
            assert_eq!(waiting.patience(now, Way::Own), Patience::Until(now + us(10) + longer));
        }
    }

    #[test]
    fn a_receiver_is_more_patient() {
        let (start, us) = (Instant::now(), Duration::from_micros);
        let mut waiting = waiting("spin-block", Some("10"), false);
        assert_eq!(waiting.patience(start, Way::Own), Patience::Until(start + us(10)));
        waiting.found(start + us(8));
        let pair = us(8) + us(10) + 4 * Thresholds::default().wake;
        assert_eq!(waiting.patience(start + us(9), Way::Own), Patience::Until(start + pair));
        // Long after the last message, a wait is like the first.
        let later = start + us(1000);
        assert_eq!(waiting.patience(later, Way::Own), Patience::Until(later + us(10)));
    }

    #[test]
    fn waiting_for_all_looks_longer_by_their_spread_up_to_a_limit() {
        let (start, us) = (Instant::now(), Duration::from_micros);
        let mut waiting = waiting("spin-block", Some("10"), false);
        let mut at = start;
        let mut wait = |waiting: &mut Waiting, lasts: Duration| {
            at += us(100_000);
            let patience = waiting.patience(at, Way::Own);
            waiting.found(at + lasts);
            match patience {
                Patience::Until(end) => end - at,
                other => panic!("{other:?}"),
            }
        };
        for _ in 0..50 {
            assert_eq!(wait(&mut waiting, us(50)), us(10), "for one");
        }
        waiting.for_all(true);
        let patient = (0..50).map(|_| wait(&mut waiting, us(50))).last().unwrap();
        assert!((us(45)..=us(50)).contains(&patient), "{patient:?}");
        let patient = (0..50).map(|_| wait(&mut waiting, us(5_000))).last().unwrap();
        assert_eq!(patient, us(10), "it would look in vain");
    }

    #[test]
    fn a_rank_that_looks_in_vain_looks_seldom_but_goes_on() {
        let now = Instant::now();
        let mut waiting = waiting("spin-block", Some("10"), false);
        let mut looked = 0;
        for _ in 0..10 * SKIPPED_MAX {
            if waiting.patience(now, Way::Own) != Patience::None {
                looked += 1;
                waiting.gave_up();
            }
        }
        assert!((10..30).contains(&looked), "{looked}");
        // Once polling helps again, every wait polls.
        while waiting.patience(now, Way::Own) == Patience::None {}
        waiting.found(now);
        for _ in 0..100 {
            assert_ne!(waiting.patience(now, Way::Own), Patience::None);
            waiting.found(now);
        }
    }
    /// The waits of two ranks that wake each other, after both polled in vain. A message takes 1
    /// us, and a sleeper takes 25 us more to be woken.
    fn waits_of_two(spin_us: Option<&str>) -> Vec<Duration> {
        let (us, mut at) = (Duration::from_micros, Instant::now());
        let mut both = [(); 2].map(|()| waiting("spin-block", spin_us, false));
        // The numbers differ: otherwise both poll again in the same turn.
        (0..8).for_each(|_| both[0].gave_up());
        (0..9).for_each(|_| both[1].gave_up());
        // One rank sends and waits for the other, which has waited for this long.
        let (mut awaited, mut told) = (us(0), vec![]);
        for turn in 0..10_000 {
            let waiting = &mut both[turn % 2];
            let began = at;
            let patience = waiting.patience(began, Way::Own);
            let answer = awaited + us(2);
            let looks = matches!(patience, Patience::Until(end) if began + answer <= end);
            let takes = if looks { answer } else { answer + us(25) };
            at += takes;
            match patience {
                _ if looks => waiting.found(began + takes),
                Patience::Until(_) => {
                    waiting.gave_up();
                    waiting.woken(began + takes);
                }
                _ => waiting.woken(began + takes),
            }
            awaited = if looks { us(0) } else { us(25) };
            told.push(takes);
        }
        told
    }

    #[test]
    fn two_that_wake_each_other_come_to_look_again() {
        let last = |waits: Vec<Duration>| waits.into_iter().rev().take(100).max().unwrap();
        let learnt = last(waits_of_two(None));
        assert!(learnt < Duration::from_micros(10), "{learnt:?}");
        let told = last(waits_of_two(Some("10")));
        assert!(told > Duration::from_micros(25), "{told:?}: as the user has said");
    }
}
