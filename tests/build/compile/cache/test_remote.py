from __future__ import annotations

import pytest

from cuwheel.base.errors import UsageError
from cuwheel.build.compile.cache.remote import parse_remote_cache

_KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hidden"}


def test_is_none_where_unset() -> None:
    assert parse_remote_cache({"CUWHEEL_REMOTE_CACHE": " "}) is None


def test_takes_the_keys_of_s3_from_the_environment() -> None:
    more = {"AWS_DEFAULT_REGION": "eu-west-1", "AWS_ENDPOINT_URL": "http://box"}

    remote = parse_remote_cache({"CUWHEEL_REMOTE_CACHE": "s3://bucket/wheels", **_KEYS, **more})

    assert remote is not None
    assert remote.s3 == {
        "access_key_id": "id",
        "secret_access_key": "hidden",
        "region": "eu-west-1",
        "endpoint": "http://box",
    }


def test_refuses_s3_without_keys_and_bucket_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        parse_remote_cache({"CUWHEEL_REMOTE_CACHE": "s3://B_ucket"})

    assert caught.value.why.splitlines() == [
        "s3: needs AWS_ACCESS_KEY_ID, which isn't set",
        "s3: needs AWS_SECRET_ACCESS_KEY, which isn't set",
        "what follows s3:// is not a bucket name",
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("memcached://box", "its scheme is memcached, which is not one of redis"),
        ("box:6379", "its scheme is box, which is not one of redis"),
        ("/srv/cache", "its scheme is none, which is not one of redis"),
        ("file:cache", "file: needs an absolute path"),
        ("redis://box/cache", "only a database number"),
        ("http:///folder", "it has no host"),
        ("redis://box:99999", "its port is not a number"),
        ("redis://[::1", "its host is invalid"),
    ],
)
def test_refuses_what_it_cant_use(text: str, why: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_remote_cache({"CUWHEEL_REMOTE_CACHE": text})

    assert why in caught.value.why


@pytest.mark.parametrize(
    "text", ["ftp://me:geheim@box", "redis://me:geheim@box:bad", "http://:geheim@"]
)
def test_refuses_without_naming_a_secret(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_remote_cache({"CUWHEEL_REMOTE_CACHE": text})

    assert "geheim" not in str(caught.value)


def test_shows_no_secret() -> None:
    remote = parse_remote_cache({"CUWHEEL_REMOTE_CACHE": "https://me:gehe%20im@box/a?token=geheim"})

    assert remote is not None
    assert "gehe" not in repr(remote)
    assert remote.redacted_url == "https://box/a"
    assert remote.without_secrets("gehe im, gehe%20im") == "***, ***"
