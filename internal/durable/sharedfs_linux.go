package durable

import "syscall"

// sharedKinds lists, by the magic numbers of statfs(2), the file systems on which a lock says nothing about other machines, or on
// which locks or file events don't work as required.
var sharedKinds = map[int64]string{
	0x6969: "NFS", 0xff534d42: "SMB", 0xfe534d42: "SMB", 0x517b: "SMB", 0x65735546: "FUSE", 0x01021997: "9p",
	0x5346414f: "AFS", 0x00c36400: "Ceph", 0x0bd00bd0: "Lustre",
}

// SharedFS returns the kind of file system that path is on if several machines may use it, "" otherwise.
func SharedFS(path string) (string, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return "", err
	}
	return sharedKinds[int64(st.Type)&0xffffffff], nil
}
