from __future__ import annotations

import pytest

from cuwheel.build.compile_cache.remote import RemoteCache, parse_remote_cache
from cuwheel.errors import UsageError

_KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hidden"}


def test_is_none_where_nothing_is_asked() -> None:
    assert parse_remote_cache({"CUWHEEL_REMOTE_CACHE": " "}) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("redis://box", RemoteCache(scheme="redis", redacted_url="redis://box", host="box")),
        (
            "redis://:pa%2Fss@box:7000/3",
            RemoteCache(
                scheme="redis",
                redacted_url="redis://box:7000/3",
                host="box",
                port=7000,
                path="/3",
                database=3,
                secret="pa/ss",
            ),
        ),
        (
            "redis+unix:/run/redis.sock?db=2",
            RemoteCache(
                scheme="redis+unix",
                redacted_url="redis+unix:/run/redis.sock",
                path="/run/redis.sock",
                database=2,
            ),
        ),
        (
            "https://me:word@box/a/b",
            RemoteCache(
                scheme="https",
                redacted_url="https://box/a/b",
                host="box",
                path="/a/b",
                user="me",
                secret="word",
            ),
        ),
        (
            "redis://box/3?timeout=5",
            RemoteCache(
                scheme="redis", redacted_url="redis://box/3", host="box", path="/3", database=3
            ),
        ),
        (
            "http://[::1]:8080/a",
            RemoteCache(
                scheme="http", redacted_url="http://[::1]:8080/a", host="::1", port=8080, path="/a"
            ),
        ),
        ("file:///srv/x", RemoteCache(scheme="file", redacted_url="file:///srv/x", path="/srv/x")),
        (
            "file:/srv/a%20b",
            RemoteCache(scheme="file", redacted_url="file:///srv/a%20b", path="/srv/a b"),
        ),
    ],
)
def test_reads_addresses(text: str, expected: RemoteCache) -> None:
    assert parse_remote_cache({"CUWHEEL_REMOTE_CACHE": text}) == expected


def test_takes_the_keys_of_s3_from_the_environment() -> None:
    remote = parse_remote_cache({"CUWHEEL_REMOTE_CACHE": "s3://bucket/wheels", **_KEYS})

    assert remote is not None
    assert (remote.host, remote.path, remote.user, remote.secret) == (
        "bucket",
        "/wheels",
        "id",
        "hidden",
    )


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
def test_says_no_secret_when_it_refuses(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_remote_cache({"CUWHEEL_REMOTE_CACHE": text})

    assert "geheim" not in str(caught.value)


def test_shows_no_secret() -> None:
    remote = parse_remote_cache({"CUWHEEL_REMOTE_CACHE": "https://me:gehe%20im@box/a?token=geheim"})

    assert remote is not None
    assert "gehe" not in repr(remote)
    assert remote.without_secrets("gehe im, gehe%20im") == "***, ***"
