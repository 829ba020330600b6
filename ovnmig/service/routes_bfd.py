"""The BFD intervals of the deployment."""

from __future__ import annotations

from fastapi import APIRouter

from ovnmig.engine.protocols import ControllerApi
from ovnmig.service.openapi import problems
from ovnmig.service.parameters import NoQueryParameters
from ovnmig.service.wire_bfd import BfdAnswer, BfdChange, bfd_answer


def bfd_routes(controller: ControllerApi) -> APIRouter:
    """The routes, bound to ``controller``."""
    router = APIRouter(prefix="/v1/bfd", tags=["bfd"])

    @router.get("", operation_id="getBfd", responses=problems(422, 503))
    async def get_bfd(_query: NoQueryParameters) -> BfdAnswer:
        """The intervals as they are."""
        return bfd_answer(await controller.bfd())

    @router.put("", operation_id="changeBfd", responses=problems(400, 413, 422, 503))
    async def change_bfd(body: BfdChange, _query: NoQueryParameters) -> BfdAnswer:
        """Set a profile, for every gateway of the deployment and of anyone else on this OVN."""
        return bfd_answer(await controller.set_bfd(body.profile))

    return router
