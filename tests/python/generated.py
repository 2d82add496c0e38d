"""schemathesis on a running server: documents made at random from its schema, and what the server answers to them.

    usage: generated.py URL SCHEMA CASES

About half of the hashes, addresses, cursors and heights that are asked for are of the chain that the server has, so that
answers say something. An answer is wrong if it is one of these:

    a status of 500 and more, no answer, no JSON           schemathesis says so
    an error that is not a refusal by the rules            REFUSALS has those that are
    data that is not what document and schema say          judge() says so
    an error whose path leads to something                 as above

Prints `CASES cases, ANSWERED answered` and ends with exit code 0; or the first wrong answer, made small, and 1. The same
schema and chain make the same documents.
"""

import json
import re
import sys
import zlib
from datetime import UTC, datetime
from io import StringIO

import graphql
import requests
import schemathesis
from graphql import (
    ArgumentNode,
    FieldNode,
    InlineFragmentNode,
    IntValueNode,
    NameNode,
    NullValueNode,
    ObjectFieldNode,
    ObjectValueNode,
    SelectionSetNode,
    Visitor,
    is_abstract_type,
    is_enum_type,
    is_leaf_type,
    is_list_type,
    is_non_null_type,
    visit,
)
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.graphql import nodes
from schemathesis.graphql.checks import GraphQLServerError
from schemathesis.specs.openapi.checks import response_schema_conformance

url, schema_file, cases = sys.argv[1], sys.argv[2], int(sys.argv[3])
session = requests.Session()
session.trust_env = False

# The schema, with names of their own for the texts that are not any text, and for how many rows are asked for: what is
# made goes into the document as it is, so that the server does not see the names.
SDL = open(schema_file, encoding="utf-8").read()
RENAMED = [
    (r"^(    (?:after|before)): String$", r"\1: CursorText"),
    (r"^(    (?:after|before)): String,$", r"\1: CursorText,"),
    (r"^(    (?:first|last)): Int\b", r"\1: PageSize"),
    (r"^(    address): String!", r"\1: AddressText!"),
    (r"^(  addresses): \[String!\]", r"\1: [AddressText!]"),
]
TEXTS = "\nscalar CursorText\nscalar PageSize\nscalar AddressText\n"

true_schema = graphql.build_schema(SDL)
renamed = SDL
for pattern, replacement in RENAMED:
    renamed, count = re.subn(pattern, replacement, renamed, flags=re.MULTILINE)
    assert count > 0, pattern

# --- what is in the chain


def ask(query):
    answer = session.post(url, json={"query": query}).json()
    assert "errors" not in answer, answer
    return answer["data"]


class Chain:
    def __init__(self):
        data = ask("""{
          tip { height }
          blocks(first: 100) { edges { cursor node { id hash height time transactions(first: 8) { edges { cursor node {
            id txid wtxid hex outputs(first: 4) { edges { cursor node { id address scriptPubKey value script { id scriptHash } } } } } } } } } }
          mempool { transactions(first: 10) { edges { cursor node { id txid wtxid hex } } } }
          chain { id } server { id } reorgs(first: 5) { edges { cursor node { id } } }
        }""")
        found = {}

        def walk(value, name):
            if isinstance(value, dict):
                for key, inner in value.items():
                    walk(inner, key)
            elif isinstance(value, list):
                for inner in value:
                    walk(inner, name)
            elif value is not None:
                found.setdefault(name, []).append(value)

        walk(data, None)
        self.of = {name: list(dict.fromkeys(values)) for name, values in found.items()}
        self.height = data["tip"]["height"]
        assert all(len(self.of[name]) > 20 for name in ["hash", "txid", "address", "cursor", "id"]), self.of.keys()


chain = Chain()


def hexadecimal(length):
    return st.integers(0, 16**length - 1).map(lambda number: f"{number:0{length}x}")


def known(name, others, node=nodes.String):
    """One of the chain, or another that is written rightly."""
    return (st.sampled_from(chain.of[name]) | others).map(node)


sats = st.sampled_from(chain.of["value"]) | st.integers(0, 21 * 10**14)
texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=30)
# the times that blocks can have: 32 bits of seconds
moment = st.integers(0, 2**32 - 1).map(lambda seconds: datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
STRATEGIES = {
    "AddressText": known("address", texts | st.just("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4")),
    "BigInt": st.integers(0, 2**80).map(str).map(nodes.String),
    "BlockHash": known("hash", hexadecimal(64)),
    "CursorText": known("cursor", texts),
    "DateTime": known("time", moment),
    "Decimal": st.decimals(0, 10**6, places=2).map(str).map(nodes.String),
    "Hash256": hexadecimal(64).map(nodes.String),
    "Hex": (st.sampled_from(chain.of["scriptPubKey"] + chain.of["scriptHash"] + chain.of["hex"]) | st.binary(max_size=40).map(bytes.hex)).map(nodes.String),
    "ID": known("id", texts),
    "Int": (st.integers(0, chain.height) | st.integers(-3, 3) | st.integers(-(2**31), 2**31 - 1)).map(nodes.Int),
    "Int53": st.integers(-(2**53) + 1, 2**53 - 1).map(nodes.Int),
    "PageSize": (st.integers(1, 20) | st.integers(1, 100) | st.integers(-1, 200)).map(nodes.Int),
    "Sats": sats.map(nodes.Int),
    "SignedSats": st.integers(-21 * 10**14, 21 * 10**14).map(nodes.Int),
    "Txid": known("txid", hexadecimal(64)),
    "UInt53": (st.integers(0, 200) | st.integers(0, 2**53 - 1)).map(nodes.Int),
    "Wtxid": known("wtxid", hexadecimal(64)),
}
for name, strategy in STRATEGIES.items():
    schemathesis.graphql.scalar(name, strategy)

# --- what an answer may be

# The codes of a question for what cannot be had, or for too much; and of a node that does not answer
REFUSALS = {"BAD_USER_INPUT", "QUERY_LIMIT_EXCEEDED", "CURSOR_ORPHANED", "CURSOR_EXPIRED", "FEATURE_DISABLED", "NODE_UNAVAILABLE"}


def between(low, high):
    return lambda value: type(value) is int and low <= value <= high


def text(pattern):
    return lambda value: isinstance(value, str) and re.fullmatch(pattern, value) is not None


SCALARS = {
    "BigInt": text(r"-?\d+"),
    "BlockHash": text(r"[0-9a-f]{64}"),
    "Boolean": lambda value: isinstance(value, bool),
    "DateTime": text(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"),
    "Float": lambda value: type(value) in (int, float),
    "Decimal": text(r"-?\d+\.\d{2,}"),
    "Hash256": text(r"[0-9a-f]{64}"),
    "Hex": text(r"([0-9a-f]{2})*"),
    "ID": text(r"[A-Z]\w+:.+"),
    "Int": between(-(2**31), 2**31 - 1),
    "Int53": between(-(2**53) + 1, 2**53 - 1),
    "Sats": between(0, 21 * 10**14),
    "SignedSats": between(-21 * 10**14, 21 * 10**14),
    "String": lambda value: isinstance(value, str),
    "Txid": text(r"[0-9a-f]{64}"),
    "UInt53": between(0, 2**53 - 1),
    "Wtxid": text(r"[0-9a-f]{64}"),
}


def must_be_given(field, argument):
    """Whether the argument of a root field is required."""
    root = true_schema.query_type.fields.get(field)
    return root is not None and argument in root.args and is_non_null_type(root.args[argument].type)


class Amended(Visitor):
    """The document, in which every object is asked for its type, first of all, and inputs of which one field must be given
    (`@oneOf`, which is unknown to those who made it) have one, or are null, or stand for the newest block where they must not be."""

    @staticmethod
    def one_of(value, is_required=False):
        given_ = [field for field in value.fields if not isinstance(field.value, NullValueNode)]
        if not given_ and is_required:
            given_ = [ObjectFieldNode(name=NameNode(value="lastBlocks"), value=IntValueNode(value="1"))]
        return ObjectValueNode(fields=tuple(given_[:1])) if given_ else NullValueNode()

    def leave_argument(self, node, _key, _parent, _path, ancestors):
        field = next(found for found in reversed(ancestors) if isinstance(found, FieldNode))
        is_range = node.name.value == "range" or (field.name.value == "range" and node.name.value == "of")
        if (node.name.value != "at" and not is_range) or not isinstance(node.value, ObjectValueNode):
            return None
        return ArgumentNode(name=node.name, value=self.one_of(node.value, must_be_given(field.name.value, node.name.value)))

    def leave_object_field(self, node, *_):
        if node.name.value != "range" or not isinstance(node.value, ObjectValueNode):
            return None
        return ObjectFieldNode(name=node.name, value=self.one_of(node.value))

    def leave_selection_set(self, node, *_):
        return SelectionSetNode(selections=(FieldNode(name=NameNode(value="__typename")), *node.selections))


def mentioned(type_, selection_sets, into):
    """The fields that an object of this type has in its answer, by their keys and in their order."""
    for selections in selection_sets:
        for selection in selections.selections:
            if isinstance(selection, InlineFragmentNode):
                condition = selection.type_condition
                on = true_schema.get_type(condition.name.value) if condition else type_
                if on is type_ or (is_abstract_type(on) and true_schema.is_sub_type(on, type_)):
                    mentioned(type_, [selection.selection_set], into)
            else:
                key = (selection.alias or selection.name).value
                into.setdefault(key, []).append(selection)
    return into


def judge(type_, selection_sets, value, path):
    """Says what is wrong with a value, if anything is."""
    if is_non_null_type(type_):
        if value is None:
            return f"{path} is null and must not be"
        return judge(type_.of_type, selection_sets, value, path)
    if value is None:
        return None
    if is_list_type(type_):
        if not isinstance(value, list):
            return f"{path} is no list: {value!r}"
        wrong = (judge(type_.of_type, selection_sets, item, [*path, at]) for at, item in enumerate(value))
        return next(filter(None, wrong), None)
    if is_leaf_type(type_):
        fits = value in type_.values if is_enum_type(type_) else SCALARS[type_.name](value)
        return None if fits else f"{path} is no {type_.name}: {value!r}"
    if not isinstance(value, dict):
        return f"{path} is no object: {value!r}"
    concrete = true_schema.get_type(value.get("__typename", ""))
    if concrete is not type_ and not (is_abstract_type(type_) and concrete and true_schema.is_sub_type(type_, concrete)):
        return f"{path} is a {concrete} and must be a {type_}"
    fields = mentioned(concrete, selection_sets, {})
    if list(value) != list(fields):
        return f"{path} has {list(value)} and must have {list(fields)}"
    for key, mentions in fields.items():
        name = mentions[0].name.value
        if name != "__typename":
            inner = [mention.selection_set for mention in mentions if mention.selection_set]
            wrong = judge(concrete.fields[name].type, inner, value[key], [*path, key])
            if wrong:
                return wrong
    return None


def leads_to_null(data, path):
    for step in path:
        if data is None:
            return True
        data = data[step]
    return data is None


def wrong_with(document, answer):
    if not set(answer) <= {"data", "errors", "extensions"}:
        return f"its keys are {list(answer)}"
    for error in answer.get("errors", []):
        code = error.get("extensions", {}).get("code")
        if code not in REFUSALS or not error["message"]:
            return f"this is no refusal: {error}"
        if "path" in error and not leads_to_null(answer["data"], error["path"]):
            return f"{error} is about something that is there"
    operation = document.definitions[0]
    root = true_schema.mutation_type if operation.operation.value == "mutation" else true_schema.query_type
    if answer.get("data") is None:
        return None if answer.get("errors") else "there is neither data nor an error"
    return judge(root, [operation.selection_set], answer["data"], [])


# --- the cases

schema = schemathesis.graphql.from_file(StringIO(renamed + TEXTS))
checks = [not_a_server_error, response_schema_conformance]
done = {"cases": 0, "answered": 0}


def is_refusal(failure):
    """Errors in an answer are failures to schemathesis, whatever they say."""
    codes = [error.get("extensions", {}).get("code") for error in getattr(failure, "errors", [])]
    return isinstance(failure, GraphQLServerError) and all(code in REFUSALS for code in codes)


def run(case):
    document = visit(graphql.parse(case.body), Amended())
    case.body = graphql.print_ast(document)
    response = case.call(base_url=url, session=session, timeout=20)
    done["cases"] += 1
    try:
        case.validate_response(response, checks=checks)
    except FailureGroup as group:
        left = [failure for failure in group.exceptions if not is_refusal(failure)]
        if left:
            raise left[0] from None
    answer = response.json()
    wrong = wrong_with(document, answer)
    assert wrong is None, f"{wrong}\n\n{case.body}\n\n{json.dumps(answer, indent=1)[:4000]}"
    field = next(value for key, value in (answer.get("data") or {"": None}).items() if key != "__typename")
    done["answered"] += field is not None


ROOTS = [("Query", name) for name in true_schema.query_type.fields] + [("Mutation", name) for name in true_schema.mutation_type.fields]
each = -(-cases // len(ROOTS))
for root, name in ROOTS:
    strategy = schema[root][name].as_strategy()
    quiet = settings(
        max_examples=each,
        database=None,
        deadline=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    seed(zlib.crc32(name.encode()))(quiet(given(case=strategy)(run)))()
# of fields with few different documents there were fewer
while done["cases"] < cases:
    before = done["cases"]
    rest = settings(quiet, max_examples=cases - before)
    seed(before)(rest(given(case=schema["Query"]["address"].as_strategy())(run)))()
print(f"{done['cases']} cases, {done['answered']} answered")
