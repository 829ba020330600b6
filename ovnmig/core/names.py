"""Names of everything a UDN owns, and its MAC addresses: functions of the UDN's name, so that nothing has to
be remembered.

The router's name is the UDN's behind a prefix, exactly: OVN makes the conntrack zone's key of it. Port names
end up unescaped in places (northd writes ``is_chassis_resident("<name>")`` into SB ``nat_addresses``,
ovn-controller names a patch port after the localnet port), so a UDN name with other than plain characters
becomes a slug with a hash there.
"""

from __future__ import annotations

import hashlib
import re

from ovnmig.core.udn import GatewayNames

_PLAIN = re.compile(r"[A-Za-z0-9._-]{1,63}")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")
_SLUG_LENGTH = 40


def _digest(*parts: str) -> str:
    """A hash of a tuple of strings; lengths are part of it, so that no two tuples share an input."""
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def stem(udn: str) -> str:
    """The UDN's name as it stands in port names: itself where plain, else ``<slug>~<hash>`` (a plain name has
    no ``~``)."""
    if _PLAIN.fullmatch(udn):
        return udn
    slug = _NOT_PLAIN.sub("-", udn)[:_SLUG_LENGTH].strip("-")
    return f"{slug}~{_digest('stem', udn)[:12]}"


def router_name(udn: str) -> str:
    """``ovnmig-<udn>``: the router, and the stem of its conntrack zones' keys since OVN 23.06.1."""
    return f"ovnmig-{udn}"


def gateway_names(udn: str) -> GatewayNames:
    """The names of a UDN's rows. No suffix ends with another and the switch has a prefix of its own, so no
    two UDNs collide: not in one table, and not in the zone keys, which routers, switches and ports share."""
    short = stem(udn)
    return GatewayNames(
        router=router_name(udn),
        inner_port=f"ovnmig-{short}-int",
        external_port=f"ovnmig-{short}-ext",
        external_switch=f"ovnmig_ext-{short}",
        localnet_port=f"ovnmig-{short}-ln",
    )


def switch_port_name(router_port: str) -> str:
    """The logical switch port facing ``router_port`` (both become SB Port_Bindings, so the names must
    differ)."""
    return f"{router_port}-lsp"


def gateway_chassis_name(router_port: str, chassis: str) -> str:
    """Unique over all ports and chassis: our port names never hold an ``@``, so the first one splits the
    two."""
    return f"{router_port}@{chassis}"


def record_name(owner: str, udn: str) -> str:
    """Name of the record row; OVN wants an identifier there. The table's index on it makes a concurrent
    create fail cleanly."""
    return f"ovnmig_{_digest('record', owner, udn)[:32]}"


def mac(owner: str, udn: str, role: str) -> str:
    """A locally administered unicast MAC address, the same after every restart and on every chassis."""
    digits = _digest("mac", owner, udn, role)
    return ":".join(["0e", *(digits[i : i + 2] for i in range(0, 10, 2))])
