//! nginx configurations at request time: the phases that evaluate the settings.
