from __future__ import annotations

import pytest
from pydantic import ValidationError

from ovnmig.service.parameters import EventOptions, MigrationFilter, MigrationOptions, NoQuery


@pytest.mark.parametrize(
    ("model", "query"),
    [
        (NoQuery, {"x": "1"}),
        (MigrationOptions, {"dryrun": "true"}),
        (MigrationOptions, {"dry_run": "perhaps"}),
        (EventOptions, {"after": "-1"}),
        (EventOptions, {"after": "x"}),
        (EventOptions, {"since": "1"}),
        (EventOptions, {"after": "nan"}),
        (EventOptions, {"migration": "x" * 201}),
        (EventOptions, {"migration": "a\nb"}),
        (MigrationFilter, {"udn": ""}),
        (MigrationFilter, {"udn": "a/b"}),
    ],
)
def test_unknown_and_wrong_query_parameters_are_refused(model: type[NoQuery], query: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        model.model_validate(query)


def test_the_defaults_follow_and_start_for_real() -> None:
    assert MigrationOptions.model_validate({}).dry_run is False
    assert EventOptions.model_validate({"after": "5"}) == EventOptions(after=5, follow=True, migration=None)
