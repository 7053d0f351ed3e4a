#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// Whether a setting of this name may hold something secret: "--hub-token", "HF_TOKEN", "apiKey", but not "--tokenizer"
/// or "--max-new-tokens". Rather too often than too rarely.
bool may_name_a_secret(const std::string& name);

/// The words of a command line, with "..." in place of what may be secret: values of flags and variables of such a name
/// (`--token X`, `--api-key=X`, `HF_TOKEN=X`, `Authorization: X`, also in JSON and in the query of a URL), users and
/// passwords in URLs, and words that begin as the tokens of well-known services do.
std::vector<std::string> with_hidden_secrets(const std::vector<std::string>& words);

}  // namespace lockstep
