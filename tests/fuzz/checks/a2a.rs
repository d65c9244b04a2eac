//! Every A2A value that is read can be written and read back as the same. The first byte selects the type.

use protocol::{
    a2a::{
        card::AgentCard,
        card_validation::{ClientProtocols, validate},
        event::{SendMessageResponse, StreamResponse},
        json::FromProtoJson,
        message::Message,
        request::{
            A2aOperation, CancelTask, GetTask, ListPushConfigs, ListTasks, PushConfigName, Request,
            SendMessage, SubscribeToTask,
        },
        task::A2aTask,
    },
    json::{MAX_DEPTH, parse},
};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Debug;

/// Panics if that does not hold.
pub(crate) fn check(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let Ok(value) = parse(bytes, MAX_DEPTH) else { return };
    for operation in A2aOperation::ALL {
        let _ = Request::read(*operation, value.clone());
    }
    let _ = validate(&value, ClientProtocols { extensions: &[], bindings: &[] }, &|_| None);
    match kind % 12 {
        0 => survives::<SendMessage>(value),
        1 => survives::<GetTask>(value),
        2 => survives::<ListTasks>(value),
        3 => survives::<CancelTask>(value),
        4 => survives::<SubscribeToTask>(value),
        5 => survives::<PushConfigName>(value),
        6 => survives::<ListPushConfigs>(value),
        7 => survives::<Message>(value),
        8 => survives::<A2aTask>(value),
        9 => survives::<AgentCard>(value),
        10 => survives::<StreamResponse>(value),
        _ => survives::<SendMessageResponse>(value),
    }
}

fn survives<T: FromProtoJson + Serialize + PartialEq + Debug>(value: Value) {
    let Ok(read) = T::from_proto(value) else { return };
    let written = serde_json::to_value(&read).expect("it can be written");
    let again = T::from_proto(written).unwrap_or_else(|invalid| panic!("{invalid:?}: {read:?}"));
    assert_eq!(again, read);
}
