//! Info objects: hints of programs. The library keeps them, and uses none.

use crate::abi::{Array, MAX_INFO_KEY, MAX_INFO_VALUE, Out, Text, TextOut, counted};
use crate::call::{call, on};
use crate::fault::{Class, Fault, Outcome};
use crate::info::Info;
use crate::table::{Handle, INFO};
use std::ffi::{c_char, c_int};

fn key(text: Text) -> Outcome<String> {
    let key = text.get()?;
    match key.len() {
        1..MAX_INFO_KEY => Ok(key),
        length => Err(Fault::new(Class::InfoKey, format!("key of {length} bytes"))),
    }
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Info_create(info: Out<Handle>) -> c_int {
    call("MPI_Info_create", |session| info.set(session.infos.borrow_mut().add(Info::default())?))
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Info_dup(info: Handle, newinfo: Out<Handle>) -> c_int {
    call("MPI_Info_dup", |session| {
        let copy = session.infos.borrow().get(info)?.clone();
        newinfo.set(session.infos.borrow_mut().add(copy)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Info_free(info: Out<Handle>) -> c_int {
    call("MPI_Info_free", |session| {
        session.infos.borrow_mut().free(info.get()?)?;
        info.set(INFO.null())
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Info_set(info: Handle, name: Text, value: Text) -> c_int {
    call("MPI_Info_set", |session| {
        let (key, value) = (key(name)?, value.get()?);
        if !(1..MAX_INFO_VALUE).contains(&value.len()) {
            let text = format!("value of {} bytes", value.len());
            return Err(Fault::new(Class::InfoValue, text));
        }
        session.infos.borrow_mut().get_mut(info)?.set(key, value);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Info_delete(info: Handle, name: Text) -> c_int {
    call("MPI_Info_delete", |session| {
        let key = key(name)?;
        let mut infos = session.infos.borrow_mut();
        let pairs = &mut infos.get_mut(info)?.pairs;
        let before = pairs.len();
        pairs.retain(|(own, _)| *own != key);
        match pairs.len() == before {
            true => Err(Fault::new(Class::InfoNoKey, format!("no key \"{key}\""))),
            false => Ok(()),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Info_get(
    info: Handle,
    name: Text,
    valuelen: c_int,
    value: TextOut,
    flag: Out<c_int>,
) -> c_int {
    call("MPI_Info_get", |session| {
        let key = key(name)?;
        let infos = session.infos.borrow();
        let found = infos.get(info)?.value(&key);
        if let Some(found) = found {
            let too_short = |_| Fault::new(Class::InfoValue, format!("room for {valuelen} bytes"));
            let room = usize::try_from(valuelen).map_err(too_short)?;
            value.set_cut(found, room + 1)?;
        }
        flag.set(c_int::from(found.is_some()))
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Info_get_valuelen(
    info: Handle,
    name: Text,
    valuelen: Out<c_int>,
    flag: Out<c_int>,
) -> c_int {
    call("MPI_Info_get_valuelen", |session| {
        let key = key(name)?;
        let length = session.infos.borrow().get(info)?.value(&key).map(str::len);
        if let Some(length) = length {
            valuelen.set(length as c_int)?;
        }
        flag.set(c_int::from(length.is_some()))
    })
}

/// `buflen` passes the room for the value and its final zero, and returns the room that the value
/// needs. Without room, only `buflen` is set.
#[unsafe(no_mangle)]
extern "C" fn MPI_Info_get_string(
    info: Handle,
    name: Text,
    buflen: Out<c_int>,
    value: TextOut,
    flag: Out<c_int>,
) -> c_int {
    call("MPI_Info_get_string", |session| {
        let key = key(name)?;
        let infos = session.infos.borrow();
        let found = infos.get(info)?.value(&key);
        if let Some(found) = found {
            let room = counted(buflen.get()?)?;
            if room > 0 {
                value.set_cut(found, room)?;
            }
            buflen.set(found.len() as c_int + 1)?;
        }
        flag.set(c_int::from(found.is_some()))
    })
}

/// The contents of `MPI_INFO_ENV`: nothing.
#[unsafe(no_mangle)]
extern "C" fn MPI_Info_create_env(
    _argc: c_int,
    _argv: Array<*mut c_char>,
    info: Out<Handle>,
) -> c_int {
    call("MPI_Info_create_env", |session| {
        info.set(session.infos.borrow_mut().add(Info::default())?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Info_get_nkeys(info: Handle, nkeys: Out<c_int>) -> c_int {
    call("MPI_Info_get_nkeys", |session| {
        nkeys.set(session.infos.borrow().get(info)?.pairs.len() as c_int)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Info_get_nthkey(info: Handle, n: c_int, name: TextOut) -> c_int {
    call("MPI_Info_get_nthkey", |session| {
        let infos = session.infos.borrow();
        let pairs = &infos.get(info)?.pairs;
        let pair = usize::try_from(n).ok().and_then(|n| pairs.get(n));
        let none = || Fault::new(Class::Arg, format!("key {n} of {}", pairs.len()));
        name.set_cut(&pair.ok_or_else(none)?.0, MAX_INFO_KEY)
    })
}

#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_set_info(comm: Handle, info: Handle) -> c_int {
    on(comm, "MPI_Comm_set_info", |session, _| session.check_info(info))
}

/// The hints that the library uses: none.
#[unsafe(no_mangle)]
extern "C" fn MPI_Comm_get_info(comm: Handle, info: Out<Handle>) -> c_int {
    on(comm, "MPI_Comm_get_info", |session, _| {
        info.set(session.infos.borrow_mut().add(Info::default())?)
    })
}
