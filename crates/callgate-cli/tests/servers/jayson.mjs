// A server of the npm package jayson: `node jayson.mjs PORT`. It takes the parameters of each method in one form only.
import jayson from 'jayson';

const param = (name, type) => ({ name, required: true, schema: { type } });
const describe = (name, paramStructure, params) =>
  ({ name, paramStructure, params, result: { name: 'result', schema: {} } });
const document = {
  openrpc: '1.3.2',
  info: { title: 'jayson', version: '1' },
  methods: [
    describe('add', 'by-position', [param('a', 'number'), param('b', 'number')]),
    describe('greet', 'by-name', [param('name', 'string')]),
    describe('withdraw', 'by-name', [param('amount', 'integer')]),
  ],
};

const methods = {
  add: new jayson.Method(([a, b], done) => done(null, a + b)),
  greet: new jayson.Method(
    ({ name, greeting }, done) => done(null, `${greeting}, ${name}`),
    { params: { greeting: 'Hello' } },
  ),
  withdraw: new jayson.Method(({ amount }, done) =>
    done({ code: 402, message: `no ${amount} in the account`, data: { balance: 7 } })),
  // As a method of the server, it would be refused for its name.
  'rpc.discover': new jayson.Method((_, done) => done(null, document)),
};
const server = new jayson.Server({}, { router: (name) => methods[name] });
server.http().listen(Number(process.argv[2]), '127.0.0.1');
