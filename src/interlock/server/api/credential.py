"""The owner's password: sealed for whoever asks, so that it is in no answer in clear."""

import base64
import binascii

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from interlock.errors import BadSpec
from interlock.sealing import seal
from interlock.server.api.dependencies import Running
from interlock.server.api.instance_models import INSTANCES
from interlock.server.api.record_models import Asked

router = APIRouter(prefix="/instances/{id}/credential", tags=["instances"])


class PublicKey(Asked):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"public_key": "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="}]}
    )

    public_key: str = Field(max_length=100, description="Of X25519, drawn for this request: 32 bytes in base64.")


class Sealed(BaseModel):
    sealed: str = Field(
        description="Base64 of HPKE (RFC 9180): X25519, HKDF-SHA256, AES-256-GCM, encapsulated key first; its info is "
        "`interlock instance credential v1 ` and the instance's id."
    )


@router.post("", summary="Ask for the owner's password")
async def credential(id: str, wanted: PublicKey, control: Running) -> Sealed:  # noqa: A002
    """Its answer is never recorded under an Idempotency-Key."""
    instance = await INSTANCES.read(control, id)
    password = await control.context.driver(instance.driver).password(instance.id)
    return Sealed(sealed=base64.b64encode(seal(password, _decoded(wanted.public_key), instance.id)).decode())


def _decoded(public_key: str) -> bytes:
    try:
        return base64.b64decode(public_key, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadSpec("The public key is not base64: send its 32 bytes so.") from error
