//! The text of a key's file: of a cluster's, of a user's and of a login host's.

#![no_main]

use libfuzzer_sys::fuzz_target;
use storm_fuzz::plant;
use storm_session::{ClientKey, ClusterKey, DoorKey, UserName};

fn written() -> [String; 4] {
    let key = ClusterKey::generate().expect("random bytes");
    let user: UserName = "alice".parse().expect("a name");
    let client = ClientKey::derive(&key, user).expect("random bytes");
    let door = DoorKey::derive(&key).expect("random bytes");
    let text = key.to_text().to_string();
    let commented = format!("# of the lab\n\n{text}");
    [commented, text, client.to_text().to_string(), door.to_text().to_string()]
}

fuzz_target!(init: plant(written()), |text: &str| {
    if let Ok(key) = text.parse::<ClusterKey>() {
        let again: ClusterKey = key.to_text().parse().expect("its own text");
        assert_eq!(again.id(), key.id());
    }
    if let Ok(key) = text.parse::<ClientKey>() {
        let again: ClientKey = key.to_text().parse().expect("its own text");
        assert_eq!((again.user(), again.serial()), (key.user(), key.serial()));
    }
    if let Ok(key) = text.parse::<DoorKey>() {
        let again: DoorKey = key.to_text().parse().expect("its own text");
        assert_eq!((again.cluster(), again.serial()), (key.cluster(), key.serial()));
    }
});
