// Loaded before a server that has no option for its address, so that the server listens only on loopback.
const net = require('node:net');

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) {
  const isPort = typeof port === 'number' || typeof port === 'string';
  return isPort ? listen.call(this, Number(port), '127.0.0.1', ...rest) : listen.call(this, port, ...rest);
};
