//! The configured models, as the conventions of OpenTelemetry name them.

use super::options::{ModelOptions, Provider};
use super::router::guess;
use crate::domain::spans::ModelIdentity;
use std::collections::BTreeMap;
use ureq::http::Uri;

/// Providers that speak the dialect of `OpenAI`: domain and name of the conventions.
const KNOWN: [(&str, &str); 9] = [
    ("openai.azure.com", "azure.ai.openai"),
    ("deepseek.com", "deepseek"),
    ("mistral.ai", "mistral_ai"),
    ("groq.com", "groq"),
    ("x.ai", "x_ai"),
    ("perplexity.ai", "perplexity"),
    ("cohere.com", "cohere"),
    ("cohere.ai", "cohere"),
    ("generativelanguage.googleapis.com", "gcp.gemini"),
];

/// The models by their ids.
pub fn model_identities(models: &[ModelOptions]) -> BTreeMap<String, ModelIdentity> {
    models.iter().map(|model| (model.id.clone(), identity(model))).collect()
}

fn identity(model: &ModelOptions) -> ModelIdentity {
    let uri = model.api_url.as_deref().and_then(|url| url.trim().parse::<Uri>().ok());
    let server = uri.as_ref().and_then(server);
    let host = server.as_ref().map_or("", |(host, _)| host.as_str());
    let known = KNOWN.iter().find(|(domain, _)| {
        host.strip_suffix(domain).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    });
    let provider = match model.provider.or_else(|| guess(model)) {
        Some(Provider::Anthropic) => "anthropic",
        Some(Provider::Demo) => "demo",
        Some(Provider::Deepseek) => "deepseek",
        Some(Provider::Glm) => "zhipu",
        // The conventions have this for each provider with the same dialect that is not known.
        Some(Provider::Openai) | None => known.map_or("openai", |(_, name)| name),
    };
    ModelIdentity {
        provider: provider.to_owned(),
        model: model.upstream_id.clone().unwrap_or_else(|| model.id.clone()),
        server,
    }
}

fn server(uri: &Uri) -> Option<(String, u16)> {
    let default = if uri.scheme_str() == Some("http") { 80 } else { 443 };
    let host = uri.host()?.trim_matches(['[', ']']).to_ascii_lowercase();
    Some((host, uri.port_u16().unwrap_or(default)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_have_the_names_of_the_conventions() {
        for (url, provider, server) in [
            ("https://api.openai.com/v1", "openai", ("api.openai.com", 443)),
            ("https://api.anthropic.com", "anthropic", ("api.anthropic.com", 443)),
            ("https://api.x.ai/v1", "x_ai", ("api.x.ai", 443)),
            ("https://box.ai/v1", "openai", ("box.ai", 443)),
            ("https://me.openai.azure.com/openai/v1", "azure.ai.openai", ("me.openai.azure.com", 443)),
            ("http://127.0.0.1:8080/v1?key=s3cret", "openai", ("127.0.0.1", 8080)),
            ("http://u:s3cret@[::1]/v1", "openai", ("::1", 80)),
        ] {
            let model = ModelOptions { id: "m".into(), api_url: Some(url.into()), ..ModelOptions::default() };
            let found = identity(&model);
            assert_eq!((found.provider.as_str(), found.model.as_str()), (provider, "m"), "{url}");
            assert_eq!(found.server, Some((server.0.to_owned(), server.1)), "{url}");
        }
        let demo = ModelOptions { id: "demo".into(), ..ModelOptions::default() };
        assert_eq!((identity(&demo).provider.as_str(), identity(&demo).server), ("demo", None));
    }
}
