"""The REST service: routes, wire models, problem documents and the event stream over a ControllerApi."""
