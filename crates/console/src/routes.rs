//! A route: its path, the clients that it admits, the form of its answer, and its action.
//!
//! Called by: the tables (`page_routes`, `api_routes`), and everything that acts by a route.
//! Out of scope: finding the route of a request (`route_table`), and what an action does
//! (`actions`, `api`).

use crate::{route_parameters::Parameter, users::Role};

/// Clients that a route admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// All that can connect.
    Public,
    /// Those with this role, or a higher one.
    Role(Role),
    /// These, and owners of a site: the answer is about their site alone.
    Site(Role),
}

/// Form of the answer, on which the checks against foreign sites depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A page, which links may lead to.
    Page,
    /// A script or a style.
    Asset,
    /// JSON.
    Api,
    /// Server-sent events.
    Events,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    LogInPage,
    LogIn,
    LogInByPasskey,
    BeginAtProvider,
    LogInByProvider,
    LinkPage,
    UseLink,
    LogOut,
    Style,
    Icon,
    Script,
    EditorScript,
    ChartScript,
    ChartStyle,
    NowPage,
    RequestsPage,
    WhyPage,
    CachePage,
    EntryPage,
    EntryImage,
    PurgeForm,
    WarmPage,
    WarmForm,
    ConfigurationPage,
    ProposeForm,
    ApplyForm,
    ConfirmForm,
    RollBackForm,
    OwnerPage,
    OwnerPropose,
    OwnerApply,
    OwnerConfirm,
    OwnerRollBack,
    SettingsPage,
    SettingsForm,
    WizardsPage,
    WizardPage,
    WizardForm,
    LogsPage,
    MessagesPage,
    BansPage,
    BanForm,
    UnbanForm,
    UpstreamsPage,
    MemberForm,
    TestForm,
    ServerForm,
    RedirectsPage,
    RedirectForm,
    PhpForm,
    RenewForm,
    PasskeysPage,
    AddPasskey,
    RemovePasskey,
    AuditPage,
    Status,
    Live,
    LiveEvents,
    RequestEvents,
    Explain,
    CacheStatistics,
    CacheEntries,
    CacheBody,
    Purge,
    Warm,
    WarmProgress,
    StopWarming,
    Bans,
    Ban,
    Unban,
    Cluster,
    Upstreams,
    ChangeMember,
    TestMember,
    AddServer,
    RemoveServer,
    Redirects,
    AddRedirect,
    RemoveRedirect,
    Tops,
    RestartPhp,
    RenewCertificate,
    Logs,
    LogText,
    Certificates,
    Configuration,
    Check,
    Complete,
    Apply,
    Confirm,
    RollBack,
    SiteSettings,
    ApplySite,
    ConfirmSite,
    RollBackSite,
    Settings,
    ChangeSettings,
    Reload,
    Audit,
    OpenApi,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    pub method: &'static str,
    pub path: &'static str,
    pub access: Access,
    pub kind: Kind,
    pub action: Action,
    /// Longest content of a request.
    pub body_bytes_max: u64,
    pub summary: &'static str,
    pub parameters: &'static [Parameter],
}

/// Longest content of a log-in.
const SMALL: u64 = 8 << 10;
/// Longest content of a configuration file, in its longest encoding.
const LARGE: u64 = 4 << 20;

pub const PUBLIC: Access = Access::Public;
pub const VIEWER: Access = Access::Role(Role::Viewer);
pub const OPERATOR: Access = Access::Role(Role::Operator);
/// Owners, too, for what is of their site.
pub const SITE_VIEWER: Access = Access::Site(Role::Viewer);
pub const SITE_OPERATOR: Access = Access::Site(Role::Operator);
pub const SITE_ADMINISTRATOR: Access = Access::Site(Role::Administrator);
pub const ADMINISTRATOR: Access = Access::Role(Role::Administrator);

/// A row without parameters, with a small content.
pub const fn route(
    method: &'static str,
    path: &'static str,
    access: Access,
    kind: Kind,
    action: Action,
) -> Route {
    Route {
        method,
        path,
        access,
        kind,
        action,
        body_bytes_max: SMALL,
        summary: "",
        parameters: &[],
    }
}

/// A row of the API.
pub const fn api(route: Route, summary: &'static str, parameters: &'static [Parameter]) -> Route {
    Route {
        summary,
        parameters,
        ..route
    }
}

/// A row whose content may be a configuration file.
pub const fn large(route: Route) -> Route {
    Route {
        body_bytes_max: LARGE,
        ..route
    }
}
