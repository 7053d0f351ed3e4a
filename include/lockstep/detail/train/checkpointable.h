#pragma once

#include <torch/serialize/archive.h>

#include <functional>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>

#include "lockstep/optim/lr_scheduler.h"

namespace lockstep {

/// An object whose state a checkpoint keeps as bytes.
struct Checkpointable {
  std::function<std::string()> state;
  std::function<void(const std::string& bytes, const std::string& path)> load_state;
};

Checkpointable checkpointable(ReduceLROnPlateau& scheduler);

/// Wraps an object with `state_dict()`, which returns a text or bytes, and `load_state_dict(text)`; or one with
/// LibTorch's `save(OutputArchive&)` and `load(InputArchive&)`, which every module and optimizer has. It must outlive
/// the result.
template <typename Object>
Checkpointable checkpointable(Object& object);

namespace detail {

template <typename Object, typename = void>
struct HasStateDict : std::false_type {};
template <typename Object>
struct HasStateDict<Object, std::void_t<decltype(std::string(std::declval<Object&>().state_dict())),
                                        decltype(std::declval<Object&>().load_state_dict(std::string()))>>
    : std::true_type {};

template <typename Object, typename = void>
struct HasArchive : std::false_type {};
template <typename Object>
struct HasArchive<Object,
                  std::void_t<decltype(std::declval<Object&>().save(std::declval<torch::serialize::OutputArchive&>())),
                              decltype(std::declval<Object&>().load(std::declval<torch::serialize::InputArchive&>()))>>
    : std::true_type {};

// Whether Object is a module's holder or a shared_ptr.
template <typename Object, typename = void>
struct IsPointer : std::false_type {};
template <typename Object>
struct IsPointer<Object, std::void_t<decltype(*std::declval<Object&>())>> : std::true_type {};

template <typename Object>
std::string archive_bytes(const Object& object) {
  torch::serialize::OutputArchive archive;
  object.save(archive);
  std::ostringstream stream;
  archive.save_to(stream);
  return stream.str();
}

template <typename Object>
void load_archive_bytes(Object& object, const std::string& bytes) {
  torch::serialize::InputArchive archive;
  std::istringstream stream(bytes);
  archive.load_from(stream);
  object.load(archive);
}

}  // namespace detail

template <typename Object>
Checkpointable checkpointable(Object& object) {
  if constexpr (detail::HasStateDict<Object>::value) {
    return {[&object] { return std::string(object.state_dict()); },
            [&object](const std::string& bytes, const std::string&) { object.load_state_dict(bytes); }};
  } else if constexpr (detail::HasArchive<Object>::value) {
    return {[&object] { return detail::archive_bytes(object); },
            [&object](const std::string& bytes, const std::string&) { detail::load_archive_bytes(object, bytes); }};
  } else {
    static_assert(detail::IsPointer<Object>::value,
                  "give it state_dict() and load_state_dict(text), or save and load of LibTorch's archives");
    return checkpointable(*object);
  }
}

}  // namespace lockstep
