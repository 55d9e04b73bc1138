"""The grammar of --params_override."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlpdata.errors import UsageError
from pretrain.settings.overrides import parse_overrides


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("", {}),
        ("a=1", {"a": "1"}),
        ("a.b=1,a.c=2.5e4", {"a": {"b": "1", "c": "2.5e4"}}),
        (" a.b = 1 , a.c = x ", {"a": {"b": "1", "c": "x"}}),
        ("a=[1,2],b=[x, 'y,z']", {"a": ["1", "2"], "b": ["x", "y,z"]}),
        ("a=[],b={}", {"a": [], "b": {}}),
        ("a=[[1,2],[3]]", {"a": [["1", "2"], ["3"]]}),
        ("a='x,y',b=\"x,y\"", {"a": "x,y", "b": "x,y"}),
        ("a='it''s',b=\"a \\\"b\\\" \\\\\"", {"a": "it's", "b": 'a "b" \\'}),
        ("a=null,b='null',c=~", {"a": None, "b": "null", "c": None}),
        ("a=", {"a": ""}),
        ("a=x=y", {"a": "x=y"}),
        ("a=gs://bucket/x-*,b=*.rec", {"a": "gs://bucket/x-*", "b": "*.rec"}),
        ("a=/x/[0-9]*.rec,b={a,b}*.rec", {"a": "/x/[0-9]*.rec", "b": "{a,b}*.rec"}),
        ("a=[/x/[0-9]*.rec,/y]", {"a": ["/x/[0-9]*.rec", "/y"]}),
        ("a={type: lamb, lamb: {beta_1: .8}}", {"a": {"type": "lamb", "lamb": {"beta_1": ".8"}}}),
        ("a.type=my.module:Part,a.size=3", {"a": {"type": "my.module:Part", "size": "3"}}),
        ("a=it's", {"a": "it's"}),
        ("a=1,a=2", {"a": "2"}),
        ('{"a": {"b": [1, "c,d"]}, e.f: null}', {"a": {"b": ["1", "c,d"]}, "e": {"f": None}}),
    ],
)
def test_parsed(text, tree):
    assert parse_overrides(text) == tree


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=x,y", "cannot read 'y': it has no `=`. A value with commas must be quoted"),
        ("a=1,params.yaml", "'params.yaml': it has no `=`. For a file use --config_file"),
        ("a[0]=1", "cannot read 'a[0]=1': single items of a list cannot be set"),
        ("a=1,,b=2", "there is nothing before or after a comma or `=` in 'a=1,,b=2'"),
        ("=3", "there is nothing before"),
        ("a b=3", "'a b' is not a dotted path"),
        ("/x/y=3", "'/x/y' is not a dotted path"),
        ("b=2,a=[1,2", "is not closed in 'a=[1,2'"),
        ("b=2,a='x", 'is not closed in "a=\'x"'),
        ("a='x'y", "cannot read \"'x'y\""),
        ("a=1,a.b=2", "'a' has a value already"),
        ("a.b=1,a=2", "'a' is set both as a value and by its fields"),
        ("a={x}", "cannot read 'x' in '{x}'"),
    ],
)
def test_faults_quote_the_part(text, message):
    with pytest.raises(UsageError) as caught:
        parse_overrides(text)
    assert message in str(caught.value)


_NAMES = st.from_regex(r"[a-z]{1,4}(\.[a-z]{1,4}){0,2}", fullmatch=True)


@given(st.text(max_size=30))
def test_any_text_is_parsed_or_refused(text):
    try:
        result = parse_overrides(text)
    except UsageError:
        return
    assert isinstance(result, dict)


@given(st.text(max_size=20), st.sampled_from("'\""))
def test_quoted_text_comes_out_as_it_went_in(value, quote):
    inner = value.replace("'", "''") if quote == "'" else value.replace("\\", "\\\\").replace('"', '\\"')
    assert parse_overrides(f"x.a={quote}{inner}{quote},x.b=1") == {"x": {"a": value, "b": "1"}}


@given(st.lists(st.text(st.characters(categories=["L", "N"]), min_size=1), max_size=5))
def test_lists_come_out_as_they_went_in(items):
    words = [item for item in items if item != "null"]
    assert parse_overrides(f"a=[{', '.join(words)}]") == {"a": words}
