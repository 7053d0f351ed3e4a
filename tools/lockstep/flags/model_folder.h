#pragma once

#include <map>
#include <string>

namespace lockstep {

/// The task for which a folder's model was trained, from its config.json: "text-classification", "language-modeling",
/// "image-classification" or "tabular-classification"; "sentence-embedding" if it has a modules.json, too.
/// @throws UsageError  if there is no such folder, or it has no config.json. @throws Error  if that cannot be read
std::string task_of_folder(const std::string& folder);

/// @throws Error  if config.json's `architecture` is a class whose head is for a task that Lockstep does not have
/// @param path  of config.json, for the error
void refuse_other_head(const std::string& architecture, const std::string& path);

/// Refuses a folder whose config.json names a type that is not read, before its tokenizer, which is often of another
/// kind, too: another tokenizer would not help. @throws Error  naming file and type
void refuse_other_models(const std::string& folder);

/// The file that says how a model of the next token continues texts.
constexpr const char* kGenerationFile = "generation_config.json";
/// That file of a model's folder, by its name, as a training saves it again; empty if the folder has none.
std::map<std::string, std::string> generation_files(const std::string& folder);

}  // namespace lockstep
