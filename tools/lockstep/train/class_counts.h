// How often each class of a training file comes, for a person.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"

namespace lockstep {

/// Rows of a class, by its name.
using ClassCounts = std::map<std::string, std::int64_t>;

/// @param names  of the classes, by number. @param labels  a number for each row
ClassCounts count_classes(const std::vector<std::string>& names, const std::vector<std::int64_t>& labels);
/// The same of samples that hold their labels.
ClassCounts count_classes(const std::vector<std::string>& names, const Dataset& rows);
/// Rows of each label of texts that may have several. @param lists  the number of each list of labels
ClassCounts count_sets(const std::map<std::string, std::int64_t>& lists, const std::vector<std::int64_t>& labels);

/// "Labels = good 59, bad 58, Good 1", the most frequent first; of many, some of the most and of the least frequent.
std::string class_counts_line(const ClassCounts& counts);

/// Warnings of classes that are probably one: labels that differ by blanks at their ends, and labels of few rows that
/// differ by case.
std::vector<std::string> warnings_of_spellings(const ClassCounts& counts, const std::string& file);

/// A warning if nearly all rows have one label: accuracy then says little.
std::vector<std::string> warnings_of_imbalance(const ClassCounts& counts, const std::string& file);

}  // namespace lockstep
