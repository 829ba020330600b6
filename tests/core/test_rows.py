from __future__ import annotations

from ovnmig.core import rows


def test_the_marks_are_a_stored_format_and_stay_as_they_are() -> None:
    """Another value here would make every row that an earlier version wrote a stranger's."""
    assert (rows.OWNER_MARK, rows.UDN_MARK, rows.ROLE_MARK) == ("ovnmig-owner", "ovnmig-udn", "ovnmig-role")
    assert (rows.EPOCH_MARK, rows.DOCUMENT_MARK) == ("ovnmig-epoch", "ovnmig-document")
    assert rows.RECORD_ROLE == "record"
