from ovsdbapp.api import API
from ovsdbapp.backend.ovs_idl import Backend

class OvnNbApiIdlImpl(Backend, API): ...
