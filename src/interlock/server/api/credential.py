"""The route of the owner's password. An answer has only its encrypted form, for the client's public key."""

import base64
import binascii

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from interlock.errors import BadSpec
from interlock.sealing import seal
from interlock.server.api.dependencies import ControlDep
from interlock.server.api.instance_models import INSTANCES
from interlock.server.api.record_models import RequestModel

router = APIRouter(prefix="/instances/{id}/credential", tags=["instances"])


class PublicKey(RequestModel):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"public_key": "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="}]}
    )

    public_key: str = Field(max_length=100, description="An X25519 key generated for this request: 32 bytes in base64.")


class Sealed(BaseModel):
    sealed: str = Field(
        description="The password encrypted with HPKE (RFC 9180), in base64: X25519, HKDF-SHA256, AES-256-GCM, the "
        "encapsulated key first. The info is `interlock instance credential v1 ` followed by the instance's id."
    )


@router.post("", summary="Ask for the owner's password")
async def credential(id: str, body: PublicKey, control: ControlDep) -> Sealed:  # noqa: A002
    """The answer is never recorded under an Idempotency-Key."""
    instance = await INSTANCES.read(control, id)
    password = await control.context.driver(instance.driver).password(instance.id)
    return Sealed(sealed=base64.b64encode(seal(password, _decoded(body.public_key), instance.id)).decode())


def _decoded(public_key: str) -> bytes:
    try:
        return base64.b64decode(public_key, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadSpec("The public key is not base64: encode its 32 bytes in base64.") from error
