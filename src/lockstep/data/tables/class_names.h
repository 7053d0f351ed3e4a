#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// The names of the classes that Hugging Face's datasets stored as numbers in a column, from what it writes into a
/// file under the key "huggingface"; empty if the column holds no classes, or the text is not of that form.
/// @param description  {"info": {"features": {COLUMN: {"_type": "ClassLabel", "names": [NAME, …]}}}}
std::vector<std::string> class_names(const std::string& description, const std::string& column);

}  // namespace lockstep
