// An OpenID provider for tests: panva's oidc-provider with users who need no password.
//
// Called by: identity.rs, through the wrapper `oidc-provider-node`.
//   provider.mjs PORT REDIRECT_URI LOGOUT_URI
// Users of the group `staff`: ann. `eve` has not verified her address. `gone` is unknown when a session
// is renewed.
import { pathToFileURL } from 'node:url';

const { default: Provider } = await import(pathToFileURL(process.env.OIDC_PROVIDER));
const [port, redirectUri, logoutUri] = process.argv.slice(2);

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{
    client_id: 'shop',
    client_secret: 'a secret: with %',
    redirect_uris: [redirectUri],
    post_logout_redirect_uris: [logoutUri],
    grant_types: ['authorization_code', 'refresh_token'],
  }],
  claims: { email: ['email', 'email_verified'], groups: ['groups'], profile: ['name'] },
  conformIdTokenClaims: false,
  scopes: ['openid', 'offline_access', 'email', 'groups', 'profile'],
  cookies: { keys: ['only for tests'] },
  pkce: { required: () => true },
  issueRefreshToken: async () => true,
  async findAccount(_context, id, token) {
    if (id === 'gone' && token?.kind === 'RefreshToken') return undefined;
    return {
      accountId: id,
      claims: async () => ({
        sub: id,
        email: `${id}@example.org`,
        email_verified: id !== 'eve',
        groups: id === 'ann' ? ['staff', 'Domain Users'] : [],
        name: 'x'.repeat(id === 'big' ? 3500 : 10),
      }),
    };
  },
});
provider.listen(Number(port), '127.0.0.1', () => console.log('listening'));
