//! Operations on other members' parts of a window.

use crate::abi::{Buffer, BufferMut, Out, counted};
use crate::call::on_window;
use crate::datatype::Type;
use crate::fault::{Class, Fault, Outcome};
use crate::memory::Elements;
use crate::number::Number;
use crate::operation::Change;
use crate::request::Active;
use crate::session::Session;
use crate::table::Handle;
use crate::window::{Changing, Place, Window};
use std::ffi::c_int;
use std::rc::Rc;

/// Elements of this process, as arguments of functions: a buffer, a count, a datatype.
type Here<B> = (B, c_int, Handle);
/// Elements of a member: its rank, a displacement, a count, a datatype.
type There = (c_int, isize, c_int, Handle);

/// A member's elements, from the arguments of a function. `None` stands for `MPI_PROC_NULL`.
struct Target {
    member: usize,
    displacement: isize,
    count: usize,
    datatype: Rc<Type>,
}

impl Target {
    fn new(
        session: &Session,
        window: &Window,
        (rank, displacement, count, datatype): There,
    ) -> Outcome<Option<Self>> {
        let (count, datatype) = (counted(count)?, session.datatype(datatype)?);
        let member = window.member(rank)?;
        Ok(member.map(|member| Target { member, displacement, count, datatype }))
    }

    /// The change of these elements. Without elements nothing changes, even if the operation is not
    /// defined for their type.
    fn changing(&self, change: Change) -> Outcome<Changing> {
        let change = if self.count == 0 { Change::Nothing } else { change };
        Changing::new(change, &self.datatype)
    }

    fn place(&self) -> Place<'_> {
        let Target { member, displacement, count, .. } = *self;
        Place { member, displacement, count, datatype: &self.datatype }
    }
}

fn read(session: &Session, (buffer, count, datatype): Here<Buffer>) -> Outcome<Elements> {
    Elements::read(buffer, count, &*session.datatype(datatype)?)
}

fn written(session: &Session, (buffer, count, datatype): Here<BufferMut>) -> Outcome<Elements> {
    Elements::written(buffer, count, &*session.datatype(datatype)?)
}

/// The change that an operation makes.
fn change(session: &Session, op: Handle) -> Outcome<Change> {
    let own = || Fault::new(Class::Op, "an operation of the program's");
    Change::of(&*session.operation(op)?).ok_or_else(own)
}

/// The waiter that is informed when an answer has arrived.
enum Waits {
    /// The window waits, with the next flush or the end of the epoch.
    Window,
    /// The program waits, by a request.
    Program(Out<Handle>),
}

impl Waits {
    /// Passes the pending messages to the waiter; `under_way` is `None` if there are none. Elements
    /// that have been sent were copied, so a request for them is done.
    fn begin(
        self,
        session: &Session,
        window: &Window,
        under_way: Option<(usize, Active)>,
    ) -> Outcome {
        match (self, under_way) {
            (Waits::Window, None) => Ok(()),
            (Waits::Window, Some((member, active))) => window.awaited(member, active),
            (Waits::Program(request), None) => {
                request.set(session.add_active(&window.comm, Active::nothing())?)
            }
            (Waits::Program(request), Some((member, active))) => {
                let id = active.receiving();
                let handle = session.add_active(&window.comm, active)?;
                if let Some(id) = id {
                    window.requested(member, id, handle);
                }
                request.set(handle)
            }
        }
    }
}

fn put(name: &str, from: Here<Buffer>, there: There, win: Handle, waits: Waits) -> c_int {
    on_window(win, name, |session, window| {
        let from = read(session, from)?;
        if let Some(target) = Target::new(session, window, there)? {
            window.put(&from, &target.place())?;
        }
        waits.begin(session, window, None)
    })
}

fn get(name: &str, into: Here<BufferMut>, there: There, win: Handle, waits: Waits) -> c_int {
    on_window(win, name, |session, window| {
        let into = written(session, into)?;
        let under_way = match Target::new(session, window, there)? {
            Some(target) => window.get(&into, &target.place())?.map(|get| (target.member, get)),
            None => None,
        };
        waits.begin(session, window, under_way)
    })
}

fn accumulate(
    name: &str,
    from: Here<Buffer>,
    there: There,
    op: Handle,
    win: Handle,
    waits: Waits,
) -> c_int {
    on_window(win, name, |session, window| {
        let (from, change) = (read(session, from)?, change(session, op)?);
        if let Some(target) = Target::new(session, window, there)? {
            let how = target.changing(change)?;
            window.accumulate(&from, &target.place(), how)?;
        }
        waits.begin(session, window, None)
    })
}

fn get_accumulate(
    name: &str,
    from: Here<Buffer>,
    into: Here<BufferMut>,
    there: There,
    op: Handle,
    win: Handle,
    waits: Waits,
) -> c_int {
    on_window(win, name, |session, window| {
        let (into, change) = (written(session, into)?, change(session, op)?);
        let from = if change == Change::Nothing { None } else { Some(read(session, from)?) };
        let Some(target) = Target::new(session, window, there)? else {
            return waits.begin(session, window, None);
        };
        let how = target.changing(change)?;
        let fetched = window.get_accumulate(from.as_ref(), &into, &target.place(), how)?;
        waits.begin(session, window, fetched.map(|fetched| (target.member, fetched)))
    })
}

/// Functions that wait with their window, and those that make a request for the program. Each row
/// has the buffers here, and `op` if the operation needs one.
macro_rules! operations {
    ($(
        fn $window:ident, $program:ident: $begin:ident
            $(($addr:ident: $buffer:ty, $count:ident, $datatype:ident))+ $($op:ident)?;
    )*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $window(
            $($addr: $buffer, $count: c_int, $datatype: Handle,)+
            target_rank: c_int,
            target_disp: isize,
            target_count: c_int,
            target_datatype: Handle,
            $($op: Handle,)?
            win: Handle,
        ) -> c_int {
            let there = (target_rank, target_disp, target_count, target_datatype);
            let name = stringify!($window);
            $begin(name, $(($addr, $count, $datatype),)+ there, $($op,)? win, Waits::Window)
        }

        #[unsafe(no_mangle)]
        extern "C" fn $program(
            $($addr: $buffer, $count: c_int, $datatype: Handle,)+
            target_rank: c_int,
            target_disp: isize,
            target_count: c_int,
            target_datatype: Handle,
            $($op: Handle,)?
            win: Handle,
            request: Out<Handle>,
        ) -> c_int {
            let there = (target_rank, target_disp, target_count, target_datatype);
            let (name, waits) = (stringify!($program), Waits::Program(request));
            $begin(name, $(($addr, $count, $datatype),)+ there, $($op,)? win, waits)
        }
    )*};
}

operations! {
    fn MPI_Put, MPI_Rput: put (origin_addr: Buffer, origin_count, origin_datatype);
    fn MPI_Get, MPI_Rget: get (origin_addr: BufferMut, origin_count, origin_datatype);
    fn MPI_Accumulate, MPI_Raccumulate: accumulate
        (origin_addr: Buffer, origin_count, origin_datatype) op;
    fn MPI_Get_accumulate, MPI_Rget_accumulate: get_accumulate
        (origin_addr: Buffer, origin_count, origin_datatype)
        (result_addr: BufferMut, result_count, result_datatype) op;
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Fetch_and_op(
    origin_addr: Buffer,
    result_addr: BufferMut,
    datatype: Handle,
    target_rank: c_int,
    target_disp: isize,
    op: Handle,
    win: Handle,
) -> c_int {
    let (from, into) = ((origin_addr, 1, datatype), (result_addr, 1, datatype));
    let there = (target_rank, target_disp, 1, datatype);
    get_accumulate("MPI_Fetch_and_op", from, into, there, op, win, Waits::Window)
}

/// Only integers, bytes and logical values can be compared bit by bit. Other numbers have several
/// equal representations.
fn comparable(datatype: &Type) -> Outcome {
    match datatype.number {
        Some(Number::Signed(_) | Number::Unsigned(_) | Number::Bool | Number::Byte) => Ok(()),
        _ => {
            let text = format!("{} is not compared and swapped", datatype.to_text());
            Err(Fault::new(Class::Type, text))
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Compare_and_swap(
    origin_addr: Buffer,
    compare_addr: Buffer,
    result_addr: BufferMut,
    datatype: Handle,
    target_rank: c_int,
    target_disp: isize,
    win: Handle,
) -> c_int {
    on_window(win, "MPI_Compare_and_swap", |session, window| {
        let (new, expected) = ((origin_addr, 1, datatype), (compare_addr, 1, datatype));
        comparable(&*session.datatype(datatype)?)?;
        let (new, expected) = (read(session, new)?, read(session, expected)?);
        let into = written(session, (result_addr, 1, datatype))?;
        let there = (target_rank, target_disp, 1, datatype);
        let Some(target) = Target::new(session, window, there)? else { return Ok(()) };
        let found = window.compare_and_swap([&expected, &new], &into, &target.place())?;
        Waits::Window.begin(session, window, found.map(|found| (target.member, found)))
    })
}
