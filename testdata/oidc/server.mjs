// A real authorization server for tests: oidc-provider with dynamic registration, PKCE, resource indicators with signed access
// tokens, refresh with rotation, revocation, introspection and device sign-in. Any name and password log in; the account is the name.
// PORT, RESOURCE and, behind a proxy, ISSUER come from the environment; TTL is the life of an access token in seconds. It prints its issuer when it listens.
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import Provider, { errors } from 'oidc-provider';

const issuer = process.env.ISSUER ?? `http://127.0.0.1:${process.env.PORT}`;
const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const jwk = { ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'RS256', kid: 'one' };

const provider = new Provider(issuer, {
  jwks: { keys: [jwk] },
  cookies: { keys: [randomBytes(16).toString('hex')] },
  scopes: ['openid', 'offline_access', 'notes:read', 'notes:write'],
  pkce: { required: () => true },
  rotateRefreshToken: true,
  issueRefreshToken: async (ctx, client, code) => client.grantTypeAllowed('refresh_token') && code.scopes.has('offline_access'),
  findAccount: async (ctx, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
  features: {
    devInteractions: { enabled: true },
    registration: { enabled: true },
    revocation: { enabled: true },
    introspection: { enabled: true },
    deviceFlow: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      useGrantedResource: () => true,
      getResourceServerInfo: (ctx, resource) => {
        if (resource !== process.env.RESOURCE) throw new errors.InvalidTarget();
        return { scope: 'notes:read notes:write', audience: resource, accessTokenFormat: 'jwt', accessTokenTTL: Number(process.env.TTL || 3600), jwt: { sign: { alg: 'RS256' } } };
      },
    },
  },
});
provider.listen(Number(process.env.PORT), '127.0.0.1', () => console.log(issuer));
