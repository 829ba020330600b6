from __future__ import annotations

import pytest

from ovnmig.cli.client import Api, encoded, segment
from ovnmig.cli.exits import ApiProblem, CliError, Exit, Unreachable
from ovnmig.engine.protocols import Conflict, DatabaseUnavailable, NotFound
from tests.service.fake import FakeController


def test_a_name_becomes_one_segment() -> None:
    assert segment("a b?#%é") == "a%20b%3F%23%25%C3%A9"
    for name in ("", ".", "..", "a/b", "\udcff"):
        with pytest.raises(CliError) as raised:
            segment(name)
        assert raised.value.code is Exit.USAGE


def test_no_service_is_unreachable_and_says_how_to_start_one() -> None:
    with Api("http://127.0.0.1:1") as api, pytest.raises(Unreachable, match=r"127\.0\.0\.1:1") as raised:
        api.get("/v1/udns")
    assert raised.value.code is Exit.UNREACHABLE
    assert "ovnmig serve" in raised.value.details[0]


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "127.0.0.1:8787", "http://[::1"])
def test_a_url_that_cannot_be_used_is_wrong_usage(url: str) -> None:
    with pytest.raises(CliError) as raised, Api(url) as api:
        api.get("/v1/udns")
    assert raised.value.code is Exit.USAGE


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotFound("x"), Exit.NOT_FOUND),
        (Conflict("x"), Exit.CONFLICT),
        (DatabaseUnavailable("x"), Exit.UNREACHABLE),
    ],
)
def test_a_problem_document_becomes_an_error_with_its_exit_code(
    url: str, controller: FakeController, error: Exception, code: Exit
) -> None:
    controller.fail_next = error
    with Api(url) as api, pytest.raises(ApiProblem, match="x") as raised:
        api.get("/v1/udns")
    assert raised.value.code is code


def test_an_accepted_status_is_an_answer(url: str) -> None:
    with Api(url) as api:
        assert api.call("GET", "/v1/udns/none", accept=(404,))["status"] == 404


def test_events_of_a_service_that_refuses_are_its_problem(url: str, controller: FakeController) -> None:
    with Api(url) as api, pytest.raises(ApiProblem, match="after"):
        list(api.events(after=-1, follow=False, migration=None))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")], "\udcff", ["\udcff"]])
def test_what_json_cannot_hold_is_wrong_usage_and_names_its_field(value: object) -> None:
    with pytest.raises(CliError, match=r"^overlap_s: ") as raised:
        encoded({"udn": "blue", "overlap_s": value})
    assert raised.value.code is Exit.USAGE


def test_parameters_that_are_not_utf_8_are_wrong_usage(url: str) -> None:
    with Api(url) as api:
        for call in (
            lambda: api.get("/v1/migrations", udn="\udcff"),
            lambda: list(api.events(after=None, follow=False, migration="\udcff")),
        ):
            with pytest.raises(CliError, match="not UTF-8") as raised:
                call()
            assert raised.value.code is Exit.USAGE
