#pragma once

#include <cstddef>

namespace fake_gpu {

/// Memory of the devices. The address that a program gets is one that it must not touch: a read or write by the host is
/// a segmentation fault, with a message. What runs on a stream reaches the bytes at another address, `host_view`.
///
/// New memory is full of 0xFF, which is NaN in every floating-point type: CUDA does not clear memory, so a program that
/// reads what nobody has written must not be lucky.
/// @return null if the device is full
void* take_device_memory(int device, std::size_t bytes);
/// False if `pointer` is not the beginning of an allocation.
bool give_device_memory(void* pointer);

/// Where the bytes of a device's address are; any other address is returned as it is.
void* host_view(const void* pointer);
/// The device of an address; -1 for memory of the host.
int device_of(const void* pointer);

/// How much of a device's memory is free.
std::size_t free_device_bytes(int device);
std::size_t all_device_bytes();

}  // namespace fake_gpu
