#pragma once

#include <string>
#include <vector>

#include "lockstep/net/membership.h"

namespace lockstep {

/// The group of some ranks of `all`, this one among them, in the order given. Its store is a part of that of `all`.
/// @param name  the same on every member, unique among the groups made of `all`
Membership subgroup(const Membership& all, const std::vector<int>& ranks, const std::string& name);

}  // namespace lockstep
