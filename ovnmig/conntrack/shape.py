"""Shape: a Spec worked out into the columns of its value table and the programs that use them.

The value table of n entries is an ``(n, columns)`` array of 32-bit words. Order of columns: original
tuple (the key), translated address and port (with the key: the identity), status, protocol state,
mark, labels, sequence adjustment, SYN proxy, master tuple, and last the remaining timeout. So the key,
the identity and the fingerprint are hashes over a prefix of the row.

The create message follows the kernel, not the dump: the reply tuple is the plain inverse of the
original one and the translation stands in CTA_NAT_SRC/CTA_NAT_DST with one exact address and port.
``nf_nat_setup_info`` only sets IPS_SRC_NAT when the two differ, and a port range or a missing port lets
the kernel silently take another port. An entry with DST_NAT alone gets an exact CTA_NAT_SRC as well, its
own unchanged source: without one the kernel binds the source by itself when the entry is confirmed
(``ctnetlink_create_conntrack``, ``nf_nat_alloc_null_binding``) and, where the reply tuple is taken, picks
another source port without a word.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from ovnmig.conntrack import attrs, hashing
from ovnmig.conntrack.attrs import Path
from ovnmig.conntrack.messages import (
    AF_INET,
    CT_DELETE,
    CT_GET,
    CT_NEW,
    IPPROTO_TCP,
    IPPROTO_UDP,
    TCP_FLAG_BE_LIBERAL,
    TCP_FLAGS_CARRIED,
    Status,
    TcpState,
)
from ovnmig.conntrack.program import FORCE_NONE, KEEP_1, KEEP_2, KEEP_ALL, Assembler, Program, word
from ovnmig.conntrack.spec import L4, Flow, Spec

STATUS_CARRIED = Status.SEEN_REPLY | Status.ASSURED | Status.FIXED_TIMEOUT | Status.HELPER
_NAT_DONE = Status.SRC_NAT_DONE | Status.DST_NAT_DONE
_FLAGS_KEEP = bytes((TCP_FLAGS_CARRIED, 0, 0, 0))
_FLAGS_FORCE = bytes((TCP_FLAG_BE_LIBERAL, 0, 0, 0))
_FLAGS_MASK = bytes((TCP_FLAG_BE_LIBERAL, TCP_FLAGS_CARRIED, 0, 0))
_DEFAULT_TIMEOUT_S = {IPPROTO_TCP: 300, IPPROTO_UDP: 120}
_OTHER_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Column:
    """One word of the value table: where a dump holds it and what of it is carried."""

    name: str
    path: Path
    keep: bytes = KEEP_ALL
    force: bytes = FORCE_NONE
    skip: int = 0
    default: bytes | None = None
    """The value when the dump does not carry it; None: the dump must."""


class Shape:
    """Columns and programs of a Spec. Get one with ``shape_of``: they are made once per process."""

    def __init__(self, spec: Spec) -> None:
        spec.check()
        self.spec = spec
        self.address_words = 1 if spec.family == AF_INET else 4
        self.columns: list[Column] = []
        self._at: dict[str, int] = {}
        self._add_tuple("orig", attrs.TUPLE_ORIG, spec.flow)
        self.key_columns = len(self.columns)
        self._add_nat()
        self.identity_columns = len(self.columns)
        nat = spec.nat | (_NAT_DONE if spec.nat else Status(0))
        status_force = int(Status.CONFIRMED | nat).to_bytes(4, "big")
        self._add(Column("status", (attrs.STATUS,), int(STATUS_CARRIED).to_bytes(4, "big"), status_force))
        if spec.info:
            self._add_info()
        self._add(Column("mark", (attrs.MARK,), default=bytes(4)))
        if spec.labels:
            self._add_words("label", (attrs.LABELS,), 4)
        if spec.seqadj:
            for side, kind in (("seq_orig", attrs.SEQ_ADJ_ORIG), ("seq_reply", attrs.SEQ_ADJ_REPLY)):
                for part in (1, 2, 3):
                    self._add(Column(f"{side}{part}", (kind, part)))
        if spec.synproxy:
            for part in (1, 2, 3):
                self._add(Column(f"synproxy{part}", (attrs.SYNPROXY, part)))
        if spec.master is not None:
            self._add_tuple("master", attrs.TUPLE_MASTER, spec.master)
        timeout_s = _DEFAULT_TIMEOUT_S.get(spec.flow.proto, _OTHER_TIMEOUT_S)
        self._add(Column("timeout", (attrs.TIMEOUT,), default=timeout_s.to_bytes(4, "big")))
        self.width = len(self.columns)
        flow = spec.flow
        key = bytes((spec.family, flow.proto, flow.l4, flow.icmp_type, flow.icmp_code))
        self.key_seed = hashing.seed_of(key)
        self.identity_seed = hashing.seed_of(key + bytes((spec.nat,)))
        self.print_seed = hashing.seed_of(spec.encode())
        self.keep = np.array([word(column.keep) for column in self.columns], dtype=np.uint32)
        self.force = np.array([word(column.force) for column in self.columns], dtype=np.uint32)

    def at(self, name: str) -> int:
        """The number of a column; KeyError if this shape has none of that name."""
        return self._at[name]

    def has(self, name: str) -> bool:
        """Whether there is a column of that name."""
        return name in self._at

    def span(self, name: str) -> list[int]:
        """The columns ``name0``, ``name1``, ... or the one called ``name``."""
        if name in self._at:
            return [self._at[name]]
        return [self._at[f"{name}{i}"] for i in range(4)]

    def _add(self, column: Column) -> None:
        self._at[column.name] = len(self.columns)
        self.columns.append(column)

    def _add_words(self, name: str, path: Path, count: int) -> None:
        for i in range(count):
            self._add(Column(f"{name}{i}" if count > 1 else name, path, skip=4 * i))

    def _add_tuple(self, name: str, kind: int, flow: Flow) -> None:
        v4 = self.address_words == 1
        source, target = (attrs.IP_V4_SRC, attrs.IP_V4_DST) if v4 else (attrs.IP_V6_SRC, attrs.IP_V6_DST)
        self._add_words(f"{name}_src", (kind, attrs.TUPLE_IP, source), self.address_words)
        self._add_words(f"{name}_dst", (kind, attrs.TUPLE_IP, target), self.address_words)
        if flow.l4 is L4.PORTS:
            for part, number in (("sport", attrs.PROTO_SRC_PORT), ("dport", attrs.PROTO_DST_PORT)):
                self._add(Column(f"{name}_{part}", (kind, attrs.TUPLE_PROTO, number), KEEP_2))
        elif flow.l4 is not L4.NONE:
            self._add(Column(f"{name}_id", (kind, attrs.TUPLE_PROTO, _icmp(flow)[0]), KEEP_2))

    def _add_nat(self) -> None:
        spec, kind = self.spec, attrs.TUPLE_REPLY
        v4 = self.address_words == 1
        for bit, name, address, port in (
            (Status.SRC_NAT, "nat_src", attrs.IP_V4_DST if v4 else attrs.IP_V6_DST, attrs.PROTO_DST_PORT),
            (Status.DST_NAT, "nat_dst", attrs.IP_V4_SRC if v4 else attrs.IP_V6_SRC, attrs.PROTO_SRC_PORT),
        ):
            if not _written(spec) & bit:
                continue
            self._add_words(name, (kind, attrs.TUPLE_IP, address), self.address_words)
            if spec.flow.l4 is L4.PORTS:
                self._add(Column(f"{name}_port", (kind, attrs.TUPLE_PROTO, port), KEEP_2))
            elif spec.flow.l4 is not L4.NONE:
                self._add(Column(f"{name}_port", (kind, attrs.TUPLE_PROTO, _icmp(spec.flow)[0]), KEEP_2))

    def _add_info(self) -> None:
        if self.spec.flow.proto == IPPROTO_TCP:
            base: Path = (attrs.PROTOINFO, attrs.PROTOINFO_TCP)
            established = bytes((TcpState.ESTABLISHED, 0, 0, 0))
            self._add(Column("state", (*base, attrs.TCP_STATE), KEEP_1, default=established))
            self._add(Column("wscale_orig", (*base, attrs.TCP_WSCALE_ORIG), KEEP_1, default=bytes(4)))
            self._add(Column("wscale_reply", (*base, attrs.TCP_WSCALE_REPLY), KEEP_1, default=bytes(4)))
            for name, kind in (("flags_orig", attrs.TCP_FLAGS_ORIG), ("flags_reply", attrs.TCP_FLAGS_REPLY)):
                self._add(Column(name, (*base, kind), _FLAGS_KEEP, _FLAGS_FORCE, default=_FLAGS_FORCE))
        else:
            base = (attrs.PROTOINFO, attrs.PROTOINFO_SCTP)
            self._add(Column("state", (*base, attrs.SCTP_STATE), KEEP_1))
            self._add(Column("vtag_orig", (*base, attrs.SCTP_VTAG_ORIG)))
            self._add(Column("vtag_reply", (*base, attrs.SCTP_VTAG_REPLY)))

    @cached_property
    def create(self) -> Program:
        """IPCTNL_MSG_CT_NEW for an entry that is not there."""
        out = Assembler()
        self._put_orig(out)
        self._put_tuple(out, attrs.TUPLE_REPLY, self.spec.flow, *self._sides(False), invert=True)
        for name, kind in (("nat_src", attrs.NAT_SRC), ("nat_dst", attrs.NAT_DST)):
            self._put_nat(out, name, kind)
        out.value(attrs.STATUS, 4, [self.at("status")])
        self._put_state(out)
        if self.spec.synproxy:
            self._put_parts(out, "synproxy", attrs.SYNPROXY)
        if self.spec.helper:
            start = out.begin(attrs.HELP)
            out.constant(attrs.HELP_NAME, self.spec.helper.encode() + b"\0")
            out.end(start)
        if self.spec.master is not None:
            names = _names("master", self.spec.master)
            self._put_tuple(out, attrs.TUPLE_MASTER, self.spec.master, *names)
        return out.finish(CT_NEW, self.spec.family)

    @cached_property
    def update(self) -> Program:
        """IPCTNL_MSG_CT_NEW for a live entry: no NAT, helper or master (EOPNOTSUPP otherwise)."""
        return self._update(with_status=True)

    @cached_property
    def update_without_status(self) -> Program:
        """The same without CTA_STATUS, for entries whose bits would clear those of a live one (EBUSY)."""
        return self._update(with_status=False)

    @cached_property
    def get(self) -> Program:
        """IPCTNL_MSG_CT_GET by the original tuple."""
        out = Assembler()
        self._put_orig(out)
        return out.finish(CT_GET, self.spec.family)

    @cached_property
    def get_by_reply(self) -> Program:
        """IPCTNL_MSG_CT_GET by the translated reply tuple: who holds the address and port outside."""
        out = Assembler()
        self._put_tuple(out, attrs.TUPLE_REPLY, self.spec.flow, *self._sides(True), invert=True)
        return out.finish(CT_GET, self.spec.family)

    @cached_property
    def delete(self) -> Program:
        """IPCTNL_MSG_CT_DELETE by the original tuple and the kernel's id, which follows the last column.

        The id keeps it from hitting another entry: one reborn with the tuple, or one whose reply
        tuple it is (the kernel finds an entry by either).
        """
        out = Assembler()
        self._put_orig(out)
        out.value(attrs.ID, 4, [self.width])
        return out.finish(CT_DELETE, self.spec.family)

    def _update(self, with_status: bool) -> Program:
        out = Assembler()
        self._put_orig(out)
        if with_status:
            out.value(attrs.STATUS, 4, [self.at("status")])
        self._put_state(out)
        return out.finish(CT_NEW, self.spec.family)

    def _sides(self, translated: bool) -> tuple[str, str, str, str]:
        """Names of source, target, source port and target port of the reply tuple."""
        source, target, sport, dport = "orig_dst", "orig_src", "orig_dport", "orig_sport"
        if self.spec.flow.l4 is not L4.PORTS:
            sport = dport = "orig_id"
        if translated and self.spec.nat & Status.DST_NAT:
            source, sport = "nat_dst", "nat_dst_port"
        if translated and _written(self.spec) & Status.SRC_NAT:
            target, dport = "nat_src", "nat_src_port"
        if self.spec.flow.l4 not in (L4.PORTS, L4.NONE) and translated and self.spec.nat & Status.DST_NAT:
            dport = "nat_dst_port"
        return source, target, sport, dport

    def _put_orig(self, out: Assembler) -> None:
        self._put_tuple(out, attrs.TUPLE_ORIG, self.spec.flow, *_names("orig", self.spec.flow))

    def _put_tuple(
        self,
        out: Assembler,
        kind: int,
        flow: Flow,
        src: str,
        dst: str,
        sport: str,
        dport: str,
        invert: bool = False,
    ) -> None:
        v4 = self.address_words == 1
        length = 4 * self.address_words
        start = out.begin(kind)
        inner = out.begin(attrs.TUPLE_IP)
        out.value(attrs.IP_V4_SRC if v4 else attrs.IP_V6_SRC, length, self.span(src))
        out.value(attrs.IP_V4_DST if v4 else attrs.IP_V6_DST, length, self.span(dst))
        out.end(inner)
        inner = out.begin(attrs.TUPLE_PROTO)
        out.constant(attrs.PROTO_NUM, bytes((flow.proto,)))
        if flow.l4 is L4.PORTS:
            out.value(attrs.PROTO_SRC_PORT, 2, [self.at(sport)])
            out.value(attrs.PROTO_DST_PORT, 2, [self.at(dport)])
        elif flow.l4 is not L4.NONE:
            number, kind_type, kind_code = _icmp(flow)
            out.value(number, 2, [self.at(dport)])
            out.constant(kind_type, bytes((flow.inverse_icmp_type() if invert else flow.icmp_type,)))
            out.constant(kind_code, bytes((flow.icmp_code,)))
        out.end(inner)
        out.end(start)

    def _put_nat(self, out: Assembler, name: str, kind: int) -> None:
        if not _written(self.spec) & (Status.SRC_NAT if kind == attrs.NAT_SRC else Status.DST_NAT):
            return
        v4 = self.address_words == 1
        start = out.begin(kind)
        for number in (
            (attrs.NAT_V4_MINIP, attrs.NAT_V4_MAXIP) if v4 else (attrs.NAT_V6_MINIP, attrs.NAT_V6_MAXIP)
        ):
            out.value(number, 4 * self.address_words, self.span(name))
        if self.has(f"{name}_port"):
            inner = out.begin(attrs.NAT_PROTO)
            for number in (attrs.PROTONAT_PORT_MIN, attrs.PROTONAT_PORT_MAX):
                out.value(number, 2, [self.at(f"{name}_port")])
            out.end(inner)
        out.end(start)

    def _put_state(self, out: Assembler) -> None:
        """Timeout, protocol state, mark, labels and sequence adjustment: what an update carries too."""
        out.value(attrs.TIMEOUT, 4, [self.at("timeout")])
        if self.spec.info:
            start = out.begin(attrs.PROTOINFO)
            if self.spec.flow.proto == IPPROTO_TCP:
                inner = out.begin(attrs.PROTOINFO_TCP)
                out.value(attrs.TCP_STATE, 1, [self.at("state")])
                out.value(attrs.TCP_WSCALE_ORIG, 1, [self.at("wscale_orig")])
                out.value(attrs.TCP_WSCALE_REPLY, 1, [self.at("wscale_reply")])
                out.value(attrs.TCP_FLAGS_ORIG, 2, [self.at("flags_orig")], _FLAGS_KEEP, _FLAGS_MASK)
                out.value(attrs.TCP_FLAGS_REPLY, 2, [self.at("flags_reply")], _FLAGS_KEEP, _FLAGS_MASK)
            else:
                inner = out.begin(attrs.PROTOINFO_SCTP)
                out.value(attrs.SCTP_STATE, 1, [self.at("state")])
                out.value(attrs.SCTP_VTAG_ORIG, 4, [self.at("vtag_orig")])
                out.value(attrs.SCTP_VTAG_REPLY, 4, [self.at("vtag_reply")])
            out.end(inner)
            out.end(start)
        out.value(attrs.MARK, 4, [self.at("mark")])
        if self.spec.labels:
            out.value(attrs.LABELS, 16, self.span("label"))
        if self.spec.seqadj:
            self._put_parts(out, "seq_orig", attrs.SEQ_ADJ_ORIG)
            self._put_parts(out, "seq_reply", attrs.SEQ_ADJ_REPLY)

    def _put_parts(self, out: Assembler, name: str, kind: int) -> None:
        start = out.begin(kind)
        for part in (1, 2, 3):
            out.value(part, 4, [self.at(f"{name}{part}")])
        out.end(start)


def _written(spec: Spec) -> Status:
    """The directions whose translation is written out, exact to the port."""
    return spec.nat | Status.SRC_NAT if spec.nat & Status.DST_NAT else spec.nat


def _icmp(flow: Flow) -> tuple[int, int, int]:
    """Attribute numbers of id, type and code."""
    if flow.l4 is L4.ICMP:
        return attrs.PROTO_ICMP_ID, attrs.PROTO_ICMP_TYPE, attrs.PROTO_ICMP_CODE
    return attrs.PROTO_ICMPV6_ID, attrs.PROTO_ICMPV6_TYPE, attrs.PROTO_ICMPV6_CODE


def _names(name: str, flow: Flow) -> tuple[str, str, str, str]:
    ports = flow.l4 is L4.PORTS
    return (
        f"{name}_src",
        f"{name}_dst",
        f"{name}_sport" if ports else f"{name}_id",
        f"{name}_dport" if ports else f"{name}_id",
    )


@lru_cache(maxsize=4096)
def shape_of(spec: Spec) -> Shape:
    """The Shape of a Spec; raises BadSpec if the Spec cannot be an entry."""
    return Shape(spec)
