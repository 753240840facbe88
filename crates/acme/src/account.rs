//! The account at a directory: made once, kept in the state folder, found again.

use crate::{client::Client, failure::Failure, shared_values::SharedValues, store::Store};
use instant_acme::{Account, AccountCredentials, ExternalAccountKey, NewAccount};
use saker_config::model::AcmeDirectory;
use tokio::sync::Mutex;

/// Creates one account at a time, so that a start with many certificates does not create many
/// accounts.
#[derive(Debug, Default)]
pub struct Accounts {
    making: Mutex<()>,
}

impl Accounts {
    /// The account, which makes its requests by `client`; that of all servers of a cluster.
    pub async fn account(
        &self,
        (store, together): (&Store, Option<&SharedValues>),
        directory: &AcmeDirectory,
        email: Option<&str>,
        client: &Client,
    ) -> Result<Account, Failure> {
        let Some(together) = together else {
            return self.own(store, directory, email, client).await;
        };
        let held = together.pull_account(store, &directory.url).await;
        let held = held.map_err(Failure::passing)?;
        let account = self.own(store, directory, email, client).await;
        if let Some(held) = held {
            let pushed = together.push_account(store, &directory.url, held).await;
            pushed.map_err(Failure::passing)?;
        }
        account
    }

    async fn own(
        &self,
        store: &Store,
        directory: &AcmeDirectory,
        email: Option<&str>,
        client: &Client,
    ) -> Result<Account, Failure> {
        let one_at_a_time = self.making.lock().await;
        let Some(credentials) = store
            .account(&directory.url)
            .and_then(|text| serde_json::from_str::<AccountCredentials>(&text).ok())
        else {
            return create(store, directory, email, client).await;
        };
        drop(one_at_a_time);
        let account = Account::builder_with_http(Box::new(client.clone()))
            .from_credentials(credentials)
            .await;
        account.map_err(|error| Failure::of("the directory", error))
    }
}

async fn create(
    store: &Store,
    directory: &AcmeDirectory,
    email: Option<&str>,
    client: &Client,
) -> Result<Account, Failure> {
    let contact = email.map(|email| format!("mailto:{email}"));
    let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
    let new = NewAccount {
        contact: &contact,
        terms_of_service_agreed: true,
        only_return_existing: false,
    };
    let binding = directory
        .external_account
        .as_ref()
        .map(|known| ExternalAccountKey::new(known.key_id.clone(), &known.hmac_key));
    let made = Account::builder_with_http(Box::new(client.clone()))
        .create(&new, directory.url.clone(), binding.as_ref())
        .await;
    let (account, credentials) = made.map_err(|error| Failure::of("no account", error))?;
    let text = serde_json::to_string(&credentials).map_err(Failure::passing)?;
    store
        .save_account(&directory.url, &text)
        .map_err(|error| Failure::passing(format!("the account can't be kept: {error}")))?;
    Ok(account)
}
