#include "lockstep/hub/hub_refusal.h"

#include <fmt/format.h>

namespace lockstep {
namespace {

std::string how_to_log_in(const HubSettings& settings) {
  return "put an access token of " + settings.endpoint + "/settings/tokens into HF_TOKEN";
}

Error gated(const HubSettings& settings, const std::string& id, const std::string& url) {
  const std::string page = settings.endpoint + "/" + id;
  if (settings.token.empty()) {
    return Error(id + " is gated: its owner gives it to users who accept the terms", url,
                 fmt::format("accept them at {}, then {}", page, how_to_log_in(settings)));
  }
  return Error(fmt::format("{} is gated, and the owner of the token in {} may not read it", id, settings.token_source),
               url, fmt::format("ask for access at {}; a fine-grained token must allow gated repositories", page));
}

Error not_found_or_private(const HubSettings& settings, const std::string& id, const std::string& url) {
  const std::string what = fmt::format("{} has no public model {}", settings.endpoint, id);
  if (settings.token.empty()) {
    return Error(what, url,
                 "check the name (OWNER/NAME); if the model is private or gated, " + how_to_log_in(settings));
  }
  return Error(fmt::format("{}, nor one that the token in {} may read", what, settings.token_source), url,
               "check the name (OWNER/NAME), and that the token's owner may read the model");
}

}  // namespace

Error hub_refusal(const HubSettings& settings, const WebAnswer& answer, const std::string& id,
                  const std::string& revision, const std::string& url) {
  constexpr int kUnauthorized = 401, kForbidden = 403, kNotFound = 404, kTooMany = 429, kServerErrors = 500;
  if (answer.error_code == "GatedRepo") return gated(settings, id, url);
  if (answer.error_code == "RevisionNotFound") {
    return Error(fmt::format("{} has no revision \"{}\"", id, revision), url,
                 "give a branch, a tag or a commit of the model with --revision, or leave it out for main");
  }
  if (answer.error_code == "RepoNotFound" || answer.status == kUnauthorized) {
    return not_found_or_private(settings, id, url);
  }
  if (answer.status == kForbidden) return gated(settings, id, url);
  if (answer.status == kNotFound) {
    return Error(fmt::format("there is no model {} at revision {}, or it does not have this file", id, revision), url,
                 "check the name (OWNER/NAME), --revision, and HF_ENDPOINT");
  }
  if (answer.status == kTooMany) {
    return Error("the Hub asks for fewer requests (HTTP 429)", url, "wait some minutes, then repeat the command");
  }
  if (answer.status >= kServerErrors) {
    return Error(fmt::format("the Hub itself failed (HTTP {})", answer.status), url,
                 "repeat the command later: what was downloaded is kept, and the rest is fetched");
  }
  return Error(answer.message, url,
               "check that this machine reaches the network, and the proxy settings (https_proxy); HF_ENDPOINT names a "
               "mirror; what was downloaded is kept, and the same command fetches the rest");
}

}  // namespace lockstep
