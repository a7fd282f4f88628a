package durable

import "syscall"

// sharedKinds are file systems on which a lock of this machine says nothing about others, or locks or events
// don't work as they must.
var sharedKinds = map[string]string{
	"nfs": "NFS", "smbfs": "SMB", "afpfs": "AFP", "webdav": "WebDAV", "macfuse": "FUSE", "osxfuse": "FUSE",
}

// SharedFS names the kind of file system that path is on when it is one that several machines may use, "" when not.
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
