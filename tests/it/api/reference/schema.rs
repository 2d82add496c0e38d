//! A schema in which whatever can happen to a resolver does: it fails, waits, answers null or a list of any length,
//! as a function of a seed and of its place in the response. Its types are written as those of `src/api` are.
//!
//! `tests/web/reference.js` holds the same function; the two must stay equal.

use async_graphql::{
    Context, EmptyMutation, EmptySubscription, Error, ID, Interface, MergedObject, Object, ObjectType, Schema,
    SimpleObject,
};
use btcgraph::api::RequestExtensions;
use btcgraph::limits::Limits;
use serde_json::{Value, json};

/// A root of queries under test.
pub(super) type Engine<Q> = Schema<Q, EmptyMutation, EmptySubscription>;

/// The schema, with what ours does around every request.
pub(super) fn engine<Q: ObjectType + 'static>(query: Q) -> Engine<Q> {
    let limits = Limits { depth: usize::MAX, complexity: usize::MAX, ..Limits::default() };
    Schema::build(query, EmptyMutation, EmptySubscription).extension(RequestExtensions::new(limits)).finish()
}

/// How the resolvers of one execution behave.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) seed: u32,
    /// Of 100 places where something can fail, about so many do.
    pub(super) percent: u32,
}

/// Fields that neither fail nor wait nor are null.
pub(super) const INFALLIBLE: &[&str] = &["Tree.id", "Stone.id", "Tree.count", "Tree.page", "Edge.node"];

/// Fields that also have the same value everywhere: of a list its length.
pub(super) fn fixed() -> Value {
    json!({ "Page.nodes": 2, "Page.edges": 2, "Page.total": 2, "Page.note": null, "Edge.label": "edge" })
}

/// What a resolver fails with.
#[derive(Clone, Debug)]
pub(super) struct Fault(String);

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self::new(fault.0)
    }
}

/// An item of a list that may be null.
type Nullable<T> = Option<Result<T, Fault>>;

/// Lists of lists: the inner ones may be null, or their items.
type Rows = Vec<Nullable<Vec<Result<Tree, Fault>>>>;
type Courses = Vec<Result<Vec<Nullable<Stone>>, Fault>>;

/// A place in the response to one request.
pub(super) struct Place {
    plan: Plan,
    path: String,
}

impl Place {
    fn of(ctx: &Context<'_>) -> Self {
        let path = ctx.path_node.unwrap().to_string_vec();
        Self { plan: *ctx.data().unwrap(), path: path.join("/") }
    }

    /// A number that belongs to this place: FNV-1a, then the last steps of MurmurHash3.
    fn roll(&self, purpose: &str) -> u32 {
        let text = format!("{}/{purpose}/{}", self.plan.seed, self.path);
        let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        let hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
        let hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
        hash ^ (hash >> 16)
    }

    fn fails(&self) -> bool {
        self.roll("fail") % 100 < self.plan.percent
    }

    fn is_null(&self) -> bool {
        self.roll("null") % 100 < 10
    }

    fn fault(&self) -> Fault {
        Fault(format!("failed at {}", self.path))
    }
}

/// What can stand at a place.
pub(super) trait Made {
    fn at(place: &Place) -> Self;
}

impl Made for String {
    fn at(place: &Place) -> Self {
        format!("String {}", place.roll("value") % 1000)
    }
}

impl Made for ID {
    fn at(place: &Place) -> Self {
        Self(format!("ID {}", place.roll("value") % 1000))
    }
}

impl Made for i32 {
    fn at(place: &Place) -> Self {
        i32::try_from(place.roll("value") % 1000).unwrap() - 500
    }
}

impl Made for bool {
    fn at(place: &Place) -> Self {
        place.roll("value") % 2 == 1
    }
}

impl<T: Made> Made for Vec<T> {
    fn at(place: &Place) -> Self {
        let item = |index| T::at(&Place { plan: place.plan, path: format!("{}/{index}", place.path) });
        (0..place.roll("length") % 4).map(item).collect()
    }
}

impl<T: Made> Made for Result<T, Fault> {
    fn at(place: &Place) -> Self {
        if place.fails() { Err(place.fault()) } else { Ok(T::at(place)) }
    }
}

impl<T: Made> Made for Option<Result<T, Fault>> {
    fn at(place: &Place) -> Self {
        match place {
            place if place.fails() => Some(Err(place.fault())),
            place if place.is_null() => None,
            place => Some(Ok(T::at(place))),
        }
    }
}

/// What stands at the place of the running resolver, after a while.
pub(super) async fn made<T: Made>(ctx: &Context<'_>) -> T {
    let place = Place::of(ctx);
    for _ in 0..place.roll("wait") % 4 {
        tokio::task::yield_now().await;
    }
    T::at(&place)
}

/// An interface over object types, by a field that cannot fail and two that can.
#[derive(Interface)]
#[graphql(
    field(name = "id", ty = "ID"),
    field(name = "maybe", ty = "Option<Result<String, Fault>>"),
    field(name = "friend", ty = "Option<Result<Thing, Fault>>")
)]
pub(super) enum Thing {
    Stone(Stone),
    Tree(Tree),
}

impl Made for Thing {
    fn at(place: &Place) -> Self {
        if place.roll("type").is_multiple_of(2) { Self::Stone(Stone) } else { Self::Tree(Tree) }
    }
}

pub(super) struct Tree;

impl Made for Tree {
    fn at(_: &Place) -> Self {
        Self
    }
}

#[Object]
impl Tree {
    async fn id(&self, ctx: &Context<'_>) -> ID {
        ID::at(&Place::of(ctx))
    }

    async fn count(&self, ctx: &Context<'_>) -> i32 {
        i32::at(&Place::of(ctx))
    }

    async fn maybe(&self, ctx: &Context<'_>) -> Option<Result<String, Fault>> {
        made(ctx).await
    }

    async fn sure(&self, ctx: &Context<'_>) -> Result<String, Fault> {
        made(ctx).await
    }

    async fn friend(&self, ctx: &Context<'_>) -> Option<Result<Thing, Fault>> {
        made(ctx).await
    }

    async fn neighbour(&self, ctx: &Context<'_>) -> Result<Thing, Fault> {
        made(ctx).await
    }

    async fn child(&self, ctx: &Context<'_>) -> Option<Result<Tree, Fault>> {
        made(ctx).await
    }

    async fn root(&self, ctx: &Context<'_>) -> Result<Tree, Fault> {
        made(ctx).await
    }

    async fn branches(&self, ctx: &Context<'_>) -> Option<Result<Vec<Nullable<Tree>>, Fault>> {
        made(ctx).await
    }

    async fn leaves(&self, ctx: &Context<'_>) -> Result<Vec<Result<Stone, Fault>>, Fault> {
        made(ctx).await
    }

    async fn words(&self, ctx: &Context<'_>) -> Result<Vec<Result<String, Fault>>, Fault> {
        made(ctx).await
    }

    async fn guests(&self, ctx: &Context<'_>) -> Option<Result<Vec<Result<Thing, Fault>>, Fault>> {
        made(ctx).await
    }

    /// As connections are: what is in it cannot fail, but what is below that can.
    async fn page(&self) -> Page {
        Page {
            nodes: vec![Tree, Tree],
            edges: [Tree, Tree].map(|node| Edge { label: "edge".to_owned(), node }).into(),
            total: Some(2),
            note: None,
        }
    }
}

#[derive(SimpleObject)]
struct Page {
    nodes: Vec<Tree>,
    edges: Vec<Edge>,
    total: Option<i32>,
    note: Option<String>,
}

#[derive(SimpleObject)]
struct Edge {
    label: String,
    node: Tree,
}

pub(super) struct Stone;

impl Made for Stone {
    fn at(_: &Place) -> Self {
        Self
    }
}

#[Object]
impl Stone {
    async fn id(&self, ctx: &Context<'_>) -> ID {
        ID::at(&Place::of(ctx))
    }

    async fn maybe(&self, ctx: &Context<'_>) -> Option<Result<String, Fault>> {
        made(ctx).await
    }

    async fn sure(&self, ctx: &Context<'_>) -> Result<String, Fault> {
        made(ctx).await
    }

    async fn friend(&self, ctx: &Context<'_>) -> Option<Result<Thing, Fault>> {
        made(ctx).await
    }

    async fn hot(&self, ctx: &Context<'_>) -> Result<bool, Fault> {
        made(ctx).await
    }

    async fn tree(&self, ctx: &Context<'_>) -> Option<Result<Tree, Fault>> {
        made(ctx).await
    }

    async fn marks(&self, ctx: &Context<'_>) -> Result<Vec<Nullable<i32>>, Fault> {
        made(ctx).await
    }
}

/// The root, in parts as ours is.
#[derive(MergedObject)]
pub(super) struct Query(pub(super) Singles, pub(super) Lists);

pub(super) struct Singles;

#[Object]
impl Singles {
    async fn tree(&self, ctx: &Context<'_>) -> Option<Result<Tree, Fault>> {
        made(ctx).await
    }

    async fn stone(&self, ctx: &Context<'_>) -> Option<Result<Stone, Fault>> {
        made(ctx).await
    }

    async fn thing(&self, ctx: &Context<'_>) -> Option<Result<Thing, Fault>> {
        made(ctx).await
    }

    async fn rock(&self, ctx: &Context<'_>) -> Result<Stone, Fault> {
        made(ctx).await
    }
}

pub(super) struct Lists;

#[Object]
impl Lists {
    async fn things(&self, ctx: &Context<'_>) -> Option<Result<Vec<Nullable<Thing>>, Fault>> {
        made(ctx).await
    }

    async fn hedge(&self, ctx: &Context<'_>) -> Option<Result<Vec<Result<Tree, Fault>>, Fault>> {
        made(ctx).await
    }

    async fn grid(&self, ctx: &Context<'_>) -> Option<Result<Rows, Fault>> {
        made(ctx).await
    }

    async fn wall(&self, ctx: &Context<'_>) -> Option<Result<Courses, Fault>> {
        made(ctx).await
    }
}

/// An interface whose own field can fail and take its parent along.
#[derive(Interface)]
#[graphql(field(name = "sure", ty = "Result<String, Fault>"))]
pub(super) enum Exposed {
    Stone(Stone),
    Tree(Tree),
}

impl Made for Exposed {
    fn at(place: &Place) -> Self {
        match Thing::at(place) {
            Thing::Stone(stone) => Self::Stone(stone),
            Thing::Tree(tree) => Self::Tree(tree),
        }
    }
}

/// A root over that interface.
pub(super) struct Exposes;

#[Object]
impl Exposes {
    async fn exposed(&self, ctx: &Context<'_>) -> Option<Result<Exposed, Fault>> {
        made(ctx).await
    }
}
