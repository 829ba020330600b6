from __future__ import annotations

from ipaddress import ip_address, ip_interface, ip_network

from ovnmig.core.udn import Policy, Replication, UdnRequest
from ovnmig.service import examples
from ovnmig.service.wire_udn import UdnChange, UdnCreate, gateway_answer, udn_answer
from tests.service.fake import FakeController


def test_a_request_becomes_the_cores_with_addresses_as_objects() -> None:
    body = UdnCreate.model_validate(examples.UDN_CREATE | {"port_range": "1024-65535", "snat_zone": 40000})
    assert body.to_core(body.name) == UdnRequest(
        name="blue",
        subnets=(ip_network("10.1.0.0/24"), ip_network("fd00:1::/64")),
        vips=(ip_interface("172.16.1.100/24"), ip_interface("2001:db8:1::100/64")),
        physical_network="public",
        nexthops=(ip_address("172.16.1.1"), ip_address("2001:db8:1::1")),
        create_switch=True,
        port_range=(1024, 65535),
        snat_zone=40000,
        policy=Policy.FOLLOW,
        replication=Replication.CONTINUOUS,
    )


def test_the_defaults_of_a_change_are_those_of_the_core() -> None:
    body = UdnChange.model_validate(
        {"subnets": ["10.1.0.0/24"], "vips": ["172.16.1.100/24"], "physical_network": "p"}
    )
    assert body.to_core("x") == UdnRequest(
        name="x",
        subnets=(ip_network("10.1.0.0/24"),),
        vips=(ip_interface("172.16.1.100/24"),),
        physical_network="p",
    )


async def test_an_answer_can_be_sent_back_as_a_change() -> None:
    controller = FakeController()
    made = UdnCreate.model_validate(examples.UDN_CREATE)
    answer = udn_answer(await controller.create_udn(made.to_core("blue"))).model_dump(mode="json")
    fields = {k: answer[k] for k in UdnChange.model_fields if k in answer}
    again = UdnChange.model_validate(fields | {"create_switch": answer["switch_owned"]})
    assert (await controller.change_udn("blue", again.to_core("blue"))).changed is False


async def test_members_are_listed_the_highest_priority_first() -> None:
    controller = FakeController()
    state = await controller.create_udn(UdnCreate.model_validate(examples.UDN_CREATE).to_core("blue"))
    assert [m.priority for m in gateway_answer(state).members] == [20, 10]
