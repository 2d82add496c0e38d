//! A schema resolved by the engine and by its copy with the shorter way answer alike.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_graphql::{EmptyMutation, EmptySubscription, Request, Schema, Variables, value};

use crate::api::extensions::account::{Account, Include};
use crate::api::extensions::request::RequestExtensions;
use crate::limits::Limits;

/// The same types in two modules: what `async_graphql` is there decides who resolves them.
macro_rules! types {
    () => {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicU32, Ordering};

        use async_graphql::{Context, Interface, Object};

        #[derive(Clone)]
        pub(super) struct Item(pub(super) i32);

        #[Object]
        impl Item {
            async fn id(&self) -> i32 {
                self.0
            }

            async fn name(&self) -> Option<String> {
                (self.0 != 2).then(|| format!("item {}", self.0))
            }

            /// Is not ready when it is first asked.
            async fn later(&self) -> i32 {
                tokio::task::yield_now().await;
                self.0 * 10
            }

            /// Counts how often it is begun, and is not ready when it is first asked.
            async fn begun(&self, ctx: &Context<'_>) -> Option<u32> {
                let begun = ctx.data_opt::<Arc<AtomicU32>>()?;
                begun.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                Some(begun.load(Ordering::Relaxed))
            }

            async fn fails(&self) -> Option<Result<i32, async_graphql::Error>> {
                Some(Err("it fails".into()))
            }

            async fn fails_strictly(&self) -> Result<i32, async_graphql::Error> {
                if self.0 == 1 { Err("it fails strictly".into()) } else { Ok(self.0) }
            }

            async fn plus(&self, by: i32) -> i32 {
                self.0 + by
            }

            async fn next(&self) -> Option<Item> {
                (self.0 < 3).then_some(Item(self.0 + 1))
            }

            async fn items(&self) -> Vec<Item> {
                vec![Item(1), Item(2)]
            }

            async fn either(&self) -> Either {
                Item(self.0 + 5).into()
            }
        }

        #[derive(Interface)]
        #[graphql(field(name = "id", ty = "i32"))]
        pub(super) enum Either {
            Item(Item),
        }
    };
}

mod ours {
    use crate::api::engine as async_graphql;
    types!();
}

mod stock {
    types!();
}

type Both =
    (Schema<ours::Item, EmptyMutation, EmptySubscription>, Schema<stock::Item, EmptyMutation, EmptySubscription>);

fn schemas() -> Both {
    let extensions = || RequestExtensions::new(Limits::default());
    let ours = Schema::build(ours::Item(0), EmptyMutation, EmptySubscription).extension(extensions()).finish();
    (ours, Schema::build(stock::Item(0), EmptyMutation, EmptySubscription).extension(extensions()).finish())
}

#[tokio::test]
async fn it_answers_as_the_engine_does() {
    let (ours, stock) = schemas();
    for query in [
        "{ id name }",
        "{ name id next { id next { name } } }",
        "{ __typename a: id b: id c: plus(by: 3) next { __typename } }",
        "{ later id next { later name items { later id } } }",
        "{ items { id name } next { items { id next { name } } } }",
        // names that occur twice
        "{ id id next { id } next { name } items { id } items { name } }",
        "{ ...all } fragment all on Item { id ...more next { ... on Item { name } } } fragment more on Item { name }",
        "{ ... { id } ... on Either { id } ... on Item @include(if: false) { name } }",
        "query($is: Boolean!) { id @skip(if: $is) name @include(if: $is) next @include(if: $is) { id } }",
        "{ either { id __typename ... on Item { name } } }",
        // errors, of fields that can be null and of such that cannot
        "{ fails id next { fails name } }",
        "{ id items { id failsStrictly } }",
        "{ next { failsStrictly id items { name } next { failsStrictly } } }",
        "{ next { id items { failsStrictly } later } }",
        "{ plus(by: 99999999999) }",
        "{ ...unknown }",
        "{ __schema { queryType { name } } id }",
    ] {
        let request = || Request::new(query).variables(Variables::from_value(value!({ "is": true })));
        let [ours, stock] = [ours.execute(request()).await, stock.execute(request()).await];
        assert_eq!(serde_json::to_string(&ours).unwrap(), serde_json::to_string(&stock).unwrap(), "{query}");
    }
}

#[tokio::test]
async fn it_counts_as_the_engine_does() {
    let (ours, stock) = schemas();
    for (query, fields) in [
        ("{ id name next { id } }", 4),
        ("{ items { id later next { id } } }", 11),
        ("{ later fails ...f } fragment f on Item { id }", 3),
    ] {
        let accounts = [(); 2].map(|()| Arc::new(Account::new(true, Include::default(), None)));
        let [first, second] = accounts.clone();
        ours.execute(Request::new(query).data(first)).await;
        stock.execute(Request::new(query).data(second)).await;
        assert_eq!(accounts.map(|account| account.cost()), [fields; 2], "{query}");
    }
}

#[tokio::test]
async fn a_field_that_waits_is_begun_once() {
    let begun = Arc::new(AtomicU32::new(0));
    let answer = schemas().0.execute(Request::new("{ begun again: begun id }").data(begun.clone())).await;
    assert_eq!(answer.data, value!({ "begun": 2, "again": 2, "id": 0 }));
    assert_eq!(begun.load(Ordering::Relaxed), 2);
}
