"""What an agent hears from device plugins: events, and nothing about how they came."""

from __future__ import annotations

from dataclasses import dataclass

from numalign.core.kubelet.devices.devices import Device


@dataclass(frozen=True, slots=True)
class PluginRegistered:
    """A plugin was connected for a resource; its list of devices comes later."""

    resource: str
    socket: str


@dataclass(frozen=True, slots=True)
class RegistrationRefused:
    """A plugin asked to be connected and was told why not."""

    resource: str
    text: str


@dataclass(frozen=True, slots=True)
class PluginReported:
    """The whole list of devices of a resource, which replaces the one before."""

    resource: str
    devices: tuple[Device, ...]
    has_preferred: bool  # GetPreferredAllocation may be asked
    prestart: bool  # PreStartContainer must be called before a container starts


@dataclass(frozen=True, slots=True)
class PluginGone:
    """The last plugin of a resource is gone: all its devices are unhealthy until one is back."""

    resource: str
    reason: str


@dataclass(frozen=True, slots=True)
class PluginForgotten:
    """No plugin came back in time: the resource does not exist any more."""

    resource: str


@dataclass(frozen=True, slots=True)
class PluginFault:
    """A plugin does something that it must not do; what was done about it is in the text."""

    resource: str
    text: str


PluginEvent = (
    PluginRegistered
    | RegistrationRefused
    | PluginReported
    | PluginGone
    | PluginForgotten
    | PluginFault
)
