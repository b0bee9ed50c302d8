// An authorization server for one client: `node authorization.mjs PORT CLIENT_ID CLIENT_SECRET SECONDS`.
// Access tokens are valid for SECONDS. A refresh token can be used once. Each reply to a refresh token
// contains a new refresh token.
import { OAuth2Server } from 'oauth2-mock-server';

const [port, id, secret, seconds] = process.argv.slice(2);
const used = new Set();
let number = 0;

const server = new OAuth2Server();
await server.issuer.keys.generate('RS256');
server.service.on('beforeTokenSigning', (token) => {
  number += 1;
  token.payload.number = number;
});
server.service.on('beforeResponse', (response, request) => {
  const refuse = (status, error) => {
    response.statusCode = status;
    response.body = { error, error_description: `this is ${error}` };
  };
  const expected = Buffer.from(`${id}:${secret}`).toString('base64');
  const { grant_type: grant, refresh_token: token } = request.body;
  if (request.headers.authorization !== `Basic ${expected}`) {
    refuse(401, 'invalid_client');
  } else if (grant === 'refresh_token' && used.has(token)) {
    refuse(400, 'invalid_grant');
  } else {
    used.add(token);
    response.body.expires_in = Number(seconds);
  }
});
await server.start(Number(port), '127.0.0.1');
