// The part of the driver's management library that counts devices, for a host without one: three devices.
extern "C" {
int nvmlInit_v2() { return 0; }
int nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = 3;
  return 0;
}
int nvmlShutdown() { return 0; }
}
