"""The runtime's end of an NRI connection, for tests and measurements."""

from __future__ import annotations

from numalign.wire.nri import messages, mux, ttrpc
from numalign.wire.nri._generated import nri_v1alpha1_pb2 as pb


class Runtime:
    """The runtime's end of the socket, byte by byte."""

    def __init__(self, connection):
        self.connection = connection
        connection.settimeout(20)
        self.demultiplexer = mux.Demultiplexer()
        self.readers = {1: ttrpc.MessageReader(), 2: ttrpc.MessageReader()}
        self.came = []
        self.stream = -1

    def next(self):
        while not self.came:
            data = self.connection.recv(65536)
            assert data, "the plugin has closed the connection"
            for number, payload in self.demultiplexer.feed(data):
                self.came += [(number, m) for m in self.readers[number].feed(payload)]
        return self.came.pop(0)

    def send(self, number, message):
        self.connection.sendall(mux.frames(number, message))

    def register(self):
        number, request = self.next()
        assert (number, request.method) == (2, "RegisterPlugin")
        self.send(2, ttrpc.encode_response(ttrpc.Response(request.stream)))
        return pb.RegisterPluginRequest.FromString(request.payload)

    def call(self, method, message, service=messages.PLUGIN_SERVICE):
        self.stream += 2
        payload = message if isinstance(message, bytes) else message.SerializeToString()
        request = ttrpc.Request(self.stream, service, method, payload)
        self.send(1, ttrpc.encode_request(request))
        number, answer = self.next()
        assert (number, answer.stream) == (1, self.stream)
        return answer
