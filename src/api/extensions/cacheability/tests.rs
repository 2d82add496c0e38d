use async_graphql::Value;

use super::Cacheability::{self, ByArgument, Immutable, ImmutableIfFound, Never, UntilNextTip};
use crate::view::Dependency;

#[test]
fn a_field_that_is_not_listed_is_never_cached() {
    assert_eq!(
        (Cacheability::of("Block", "hash"), Cacheability::of("Block", "confirmations")),
        (Immutable, UntilNextTip)
    );
    for (type_name, field) in [("Block", "nothing"), ("Nothing", "hash"), ("__Schema", "types")] {
        assert_eq!(Cacheability::of(type_name, field), Never, "{type_name}.{field}");
    }
}

#[test]
fn a_missing_object_may_be_found_later() {
    let (here, null) = (Value::from("a"), Value::Null);
    let some = Value::List(vec![here.clone(), null.clone()]);
    let all = Value::List(vec![here.clone(), here.clone()]);
    for (reported, dependency) in [
        (Some(&here), Dependency::Object),
        (Some(&all), Dependency::Object),
        (Some(&some), Dependency::Head),
        (Some(&null), Dependency::Head),
        (None, Dependency::Head),
    ] {
        assert_eq!(ImmutableIfFound.dependency(reported), dependency, "{reported:?}");
        assert_eq!(Immutable.dependency(reported), Dependency::Object, "the null of a fixed field is fixed");
        assert_eq!(ByArgument.dependency(reported), Dependency::Object, "the field sets its own");
    }
}
