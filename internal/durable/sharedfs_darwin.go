package durable

import "syscall"

// sharedKinds lists the file systems on which a lock says nothing about other machines, or on which locks or file events don't
// work as required.
var sharedKinds = map[string]string{
	"nfs": "NFS", "smbfs": "SMB", "afpfs": "AFP", "webdav": "WebDAV", "macfuse": "FUSE", "osxfuse": "FUSE",
}

// SharedFS returns the kind of file system that path is on if several machines may use it, "" otherwise.
func SharedFS(path string) (string, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return "", err
	}
	var name []byte
	for _, c := range st.Fstypename {
		if c == 0 {
			break
		}
		name = append(name, byte(c))
	}
	return sharedKinds[string(name)], nil
}
